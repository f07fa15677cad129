"""Tables of astropy as Arrow: units, masks and times, held against what astropy itself says of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import astropy.units as u
import hipslake
import numpy as np
import pyarrow as pa
import pytest
from astropy.coordinates import SkyCoord
from astropy.table import Column, MaskedColumn, QTable, Table
from astropy.time import Time, TimeDelta
from astropy.utils.masked import Masked
from hipslake.api.given_rows import rows_of
from hipslake.api.run_interval import window_of_interval
from hipslake.errors import InputError, SchemaMismatchError, SpecError
from hypothesis import given
from hypothesis import strategies as st

from tests.api.stars_spec import SPEC

SCALES = ["utc", "tai", "tt", "tdb", "tcb", "tcg"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def column(values: Any, **more: Any) -> pa.ChunkedArray:
    return rows_of(Table({"x": values}, **more)).read_all()["x"]


@given(st.lists(st.floats(41_500, 61_000), min_size=1, max_size=9), st.sampled_from(SCALES))
def test_times_of_any_scale_are_timestamps_in_utc(days: list[float], scale: str) -> None:
    times = Time(np.floor(days), np.mod(days, 1), format="mjd", scale=scale)
    found = column(times)
    assert found.type == pa.timestamp("us", "UTC")
    for got, wanted in zip(found.to_pylist(), times.utc.isot, strict=True):
        assert abs(got - datetime.fromisoformat(wanted).replace(tzinfo=UTC)) < timedelta(milliseconds=1)
    whole = Time(EPOCH) + TimeDelta(np.round((times - Time(EPOCH)).sec, 6), format="sec")
    back = column(Time(whole, scale="utc"))
    assert np.abs(Time(back.to_pylist()).tai.mjd - whole.tai.mjd).max() * 86400 < 3e-6


def test_microseconds_leap_seconds_masks_and_old_times() -> None:
    times = Time(
        [
            "2016-12-31T23:59:59.999999",
            "2016-12-31T23:59:60.25",
            "2017-01-01T00:00:00",
            "1960-03-01",
        ],
        format="isot",
        scale="utc",
    )
    assert column(times).to_pylist() == [
        datetime(2016, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2017, 1, 1, 0, 0, 0, 250000, UTC),
        datetime(2017, 1, 1, tzinfo=UTC),
        datetime(1960, 3, 1, tzinfo=UTC),
    ]
    times[1] = np.ma.masked
    assert column(times)[1].as_py() is None
    assert column(times).null_count == 1
    wide = column(Time([[61000.0, 61001.0], [61002.0, 61003.0]], format="mjd", scale="tai"))
    assert wide.type == pa.list_(pa.timestamp("us", "UTC"), 2)
    assert wide[1].as_py()[1] == datetime(2025, 11, 23, 23, 59, 23, tzinfo=UTC)


def test_times_without_a_place_in_utc_are_refused() -> None:
    for wrong in (Time([61000.0], format="mjd", scale="local"), Time([-1e9], format="jd")):
        with pytest.raises(InputError, match="column 'x' has times of scale"):
            column(wrong)


def test_differences_of_times_are_durations() -> None:
    steps = TimeDelta([1.5, 86400.000001, -3], format="sec")
    assert column(steps).to_pylist() == [
        timedelta(seconds=1.5),
        timedelta(days=1, microseconds=1),
        timedelta(seconds=-3),
    ]


MASK = np.array([[False, True], [True, False], [False, False]])
VALUES = np.arange(6.0).reshape(3, 2)
MASKED: dict[str, Any] = {
    "masked column": MaskedColumn(VALUES, mask=MASK, unit="mag"),
    "masked array of numpy": np.ma.MaskedArray(VALUES, mask=MASK),
    "Masked": Masked(VALUES, mask=MASK),
    "masked quantity": Masked(VALUES * u.mag, mask=MASK),
    "big-endian": MaskedColumn(VALUES.astype(">f4"), mask=MASK),
    "whole numbers": Masked(VALUES.astype(">i2"), mask=MASK),
}


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("kind", [Table, QTable])
def test_what_is_masked_is_null(kind: Any, name: str) -> None:
    found = rows_of(kind({"x": MASKED[name], "y": MASKED[name][:, 0]})).read_all()
    assert found["x"].to_pylist() == [[0.0, None], [None, 3.0], [4.0, 5.0]]
    assert found["y"].to_pylist() == [0.0, None, 4.0]
    unit = {b"unit": b"mag"} if name in ("masked column", "masked quantity") else None
    assert found.schema.field("x").metadata == unit


def test_units_of_quantities_and_words_about_columns_are_kept() -> None:
    table = QTable({"speed": [1.0, 2.0] * u.km / u.s, "mag": [1.0, 2.0] * u.mag(u.AB)})
    table["speed"].info.description, table["speed"].info.meta = "radial", {"ucd": "spect.dopplerVeloc"}
    schema = rows_of(table).schema
    assert schema.field("speed").metadata == {
        b"unit": b"km / s",
        b"description": b"radial",
        b"ucd": b"spect.dopplerVeloc",
    }
    assert schema.field("mag").metadata == {b"unit": b"mag(AB)"}


def test_cells_of_several_axes_are_lists_of_lists() -> None:
    cube = np.arange(24, dtype=">i4").reshape(2, 3, 2, 2)
    found = column(cube)
    assert found.type == pa.list_(pa.list_(pa.list_(pa.int32(), 2), 2), 3)
    assert found.to_pylist() == cube.tolist()
    assert column(np.zeros((2, 0))).to_pylist() == [[], []]
    assert column(np.zeros((2, 0, 3))).to_pylist() == [[], []]


KINDS: dict[str, tuple[Any, list[Any]]] = {
    "bytes": (np.array([b"a ", "ä".encode()]), ["a ", "ä"]),
    "complex": (np.array([1 + 2j, 3]), [{"real": 1.0, "imaginary": 2.0}, {"real": 3.0, "imaginary": 0.0}]),
    "structs": (
        np.array([(1, b"a"), (2, b"b")], dtype=[("n", ">i8"), ("s", "S1")]),
        [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}],
    ),
    "objects": (Column([1, None], dtype=object), [1, None]),
    "years": (np.array(["2020", "NaT"], "M8[Y]"), [datetime(2020, 1, 1).date(), None]),
    "hours": (np.array(["2020-01-01T05", "NaT"], "M8[h]"), [datetime(2020, 1, 1, 5), None]),
    "truths": (MaskedColumn([True, False], mask=[False, True]), [True, None]),
    "texts of any length": (np.array(["a", "bcd"], np.dtypes.StringDType()), ["a", "bcd"]),
}


@pytest.mark.parametrize("name", KINDS)
def test_columns_of_all_kinds_come_back(name: str) -> None:
    values, wanted = KINDS[name]
    assert column(values).to_pylist() == wanted


def test_what_arrow_cannot_hold_is_refused_by_name() -> None:
    for wrong in (
        np.array([b"\xff"]),
        np.array([1], np.longdouble),
        SkyCoord([1] * u.deg, [2] * u.deg),
        Column([1, "a"], dtype=object),
    ):
        with pytest.raises(InputError, match="column 'x'"):
            column(wrong)


def test_times_and_masks_arrive_in_the_catalog(tmp_path: Path) -> None:
    times = Time([61000.0, 61001.0, 61002.0], format="mjd", scale="tai")
    times[1] = np.ma.masked
    table = QTable({"ra": [1, 2, 3] * u.deg, "dec": [4, 5, 6] * u.deg, "seen": times})
    found = hipslake.ingest(table, spec=SPEC, warehouse=tmp_path, spark=False)
    rows = found.read(["ra", "seen"]).sort_by("ra")
    assert rows["seen"].to_pylist() == [
        datetime(2025, 11, 20, 23, 59, 23, tzinfo=UTC),
        None,
        datetime(2025, 11, 22, 23, 59, 23, tzinfo=UTC),
    ]
    assert found.read(["ra"], filters="seen > '2025-11-21T00:00:00Z'")["ra"].to_pylist() == [3.0]


@pytest.mark.parametrize("unit", [u.rad, u.hourangle, u.arcmin, u.mas, u.deg])
def test_positions_of_another_unit_than_the_spec_says_are_refused(tmp_path: Path, unit: Any) -> None:
    degrees = [1.0, 2.0] * u.deg
    table = QTable({"ra": degrees.to(unit), "dec": degrees.to(u.rad if unit is u.rad else u.deg)})

    def ingest(**spec: Any) -> list[float]:
        catalog = hipslake.ingest(table, spec=SPEC | spec, warehouse=tmp_path, spark=False)
        ra = "ra_icrs" if "ra_icrs" in catalog.schema.names else "ra"
        return sorted(np.round(catalog.read([ra])[ra].to_pylist(), 9).tolist())

    if unit is u.deg:
        assert ingest() == [1.0, 2.0]
        with pytest.raises(SchemaMismatchError, match=r"'ra' says that its unit is 'deg', .*unit is rad"):
            ingest(position={"ra": "ra", "dec": "dec", "unit": "rad"})
        return
    with pytest.raises(SchemaMismatchError, match=rf"'ra' says that its unit is '{unit}', .*unit is deg"):
        ingest()
    if unit is u.rad:
        assert ingest(position={"ra": "ra", "dec": "dec", "unit": "rad"}) == [1.0, 2.0]
    if unit is not u.mas:  # of which so many are no degrees
        told = {name: {"unit": "deg"} for name in ("ra", "dec")}
        assert ingest(columns=told, name="other") == np.round(table["ra"].value, 9).tolist()


@given(st.floats(50_000, 61_000), st.floats(0.001, 400), st.sampled_from(SCALES))
def test_intervals_of_any_scale_are_windows_in_utc(mjd: float, days: float, scale: str) -> None:
    times = Time([mjd, mjd + days], format="mjd", scale=scale)
    wanted = [datetime.fromisoformat(each).replace(tzinfo=UTC) for each in times.utc.isot]
    for given_times in (times, (times[0], times[1]), list(times)):
        window = window_of_interval(given_times)
        assert window.start is not None
        assert window.end is not None
        assert abs(window.start - wanted[0]) < timedelta(milliseconds=1)
        assert abs(window.end - wanted[1]) < timedelta(milliseconds=1)


def test_masked_and_local_times_are_no_interval() -> None:
    masked = Time([61000.0, 61001.0], format="mjd")
    masked[0] = np.ma.masked
    for wrong in (masked, masked[0], Time(61000, format="mjd", scale="local"), TimeDelta(3, format="sec")):
        with pytest.raises(SpecError, match="interval: "):
            window_of_interval(wrong)
