"""Columns of sexagesimal texts: read as astropy reads them, and as the reader of single texts does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from astropy import units
from astropy.coordinates import Angle
from hipslake.errors import RegionError
from hipslake.sphere.angle_columns import angles_of
from hipslake.sphere.angle_text import angle_of, plain_signs
from hipslake.sphere.coordinates import check_positions, positions, to_icrs_degrees
from hypothesis import given
from hypothesis import strategies as st

ROWS = 400


def written(degrees: np.ndarray, form: str, *, hours: bool, precision: int = 4) -> list[str]:
    unit = units.hourangle if hours else units.deg
    angles = Angle(degrees, units.deg)
    sep = {"colon": ":", "blank": " ", "letters": "hms" if hours else "dms"}[form]
    return list(angles.to_string(unit=unit, sep=sep, precision=precision, pad=True, alwayssign=not hours))


@pytest.mark.parametrize("form", ["colon", "blank", "letters"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_columns_are_read_as_astropy_reads_them(form: str, kind: pa.DataType) -> None:
    rng = np.random.default_rng(3)
    ra, dec = rng.uniform(0, 360, ROWS), np.concatenate([rng.uniform(-90, 90, ROWS - 2), [-0.25, 0.25]])
    lon, lat = written(ra, form, hours=True), written(dec, form, hours=False)
    found = positions(pa.array(lon).cast(kind), pa.array(lat).cast(kind), unit="hour")
    assert not check_positions(*found, unit="hour").any()
    mine = to_icrs_degrees(*found, unit="hour", frame="icrs")
    expected = Angle(lon, units.hourangle).deg, Angle(lat, units.deg).deg
    for here, there in zip(mine, expected, strict=True):
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "hours", "degrees"),
    [
        ("05:34:31.9", 5 + (34 / 60 + 31.9 / 3600), 5 + (34 / 60 + 31.9 / 3600)),
        ("05h34m31.9s", 5 + (34 / 60 + 31.9 / 3600), np.nan),
        ("5h34m", 5 + 34 / 60, np.nan),
        ("83d30m", 83.5 / 15, 83.5),
        ("+22 00 52", 22 + 52 / 3600, 22 + 52 / 3600),
        ("-00 30", np.nan, -0.5),
        ("\u221212\u00b030\u203200\u2033", -12.5 / 15, -12.5),
        ("12.5", 12.5, 12.5),
        (" 12.5 ", 12.5, 12.5),
        ("83.5d", 83.5 / 15, 83.5),
        ("25:00:00", np.nan, 25.0),
        ("24:00:00", 24.0, 24.0),
        ("-05:30:00", np.nan, -5.5),
        ("05:61:00", np.nan, np.nan),
        ("05:30:61", np.nan, np.nan),
        ("", np.nan, np.nan),
        ("nan", np.nan, np.nan),
        ("5:30:00 N", np.nan, np.nan),
        ("05:34:31,9", np.nan, np.nan),
        ("05h34:31", np.nan, np.nan),
        (None, np.nan, np.nan),
    ],
)
def test_forms(text: str | None, hours: float, degrees: float) -> None:
    np.testing.assert_array_equal(angles_of(pa.array([text], pa.string()), "hour"), [hours])
    np.testing.assert_array_equal(angles_of(pa.array([text], pa.string()), "deg"), [degrees])


@given(st.lists(st.text("0123456789:+- .hdms", max_size=12), max_size=20))
def test_a_column_says_what_its_texts_say_one_by_one(texts: list[str]) -> None:
    found = angles_of(pa.array(texts, pa.string()), "deg")
    for text, value in zip(texts, found, strict=True):
        angle = angle_of(plain_signs(text))
        try:
            alone = np.nan if angle is None or angle.unit == "h" else angle.value("deg", "angle")
        except RegionError:
            alone = np.nan
        assert value == alone or (np.isnan(value) and np.isnan(alone)), text


def test_hours_as_numbers_have_limits_of_their_own() -> None:
    lon, lat = np.array([0.0, 23.99, -24.1, 48.1, 12.0]), np.array([0.0, 90.0, 0.0, 0.0, 90.1])
    assert check_positions(lon, lat, unit="hour").tolist() == [0, 0, 4, 4, 3]
    ra, dec = to_icrs_degrees(lon[:2], lat[:2], unit="hour", frame="icrs")
    assert ra.tolist() == [0.0, 23.99 * 15]
    assert dec.tolist() == [0.0, 90.0]


def test_columns_without_rows_and_of_several_chunks() -> None:
    assert angles_of(pa.chunked_array([], pa.string()), "deg").tolist() == []
    assert angles_of(pa.chunked_array([["1:30"], [], ["2:00"]]), "deg").tolist() == [1.5, 2.0]
