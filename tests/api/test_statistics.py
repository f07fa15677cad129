"""Statistics and histograms of columns, held against those of the rows that a read gives."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.api.column_statistics import ColumnStatistics
from hipslake.errors import SchemaMismatchError, SpecError, VerificationError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.catalogs import LAYOUTS, publish_many_kinds
from tests.catalog.publishing import Published
from tests.examples import examples
from tests.sphere.regions.skies import REGIONS

FILTERS = [None, "mag < 15 or note is null", "id < -5000", "mag is nan"]


def by_hand(rows: pa.Table, name: str) -> dict[str, Any]:
    """Of a column, by loops over its values."""
    values = rows[name].to_pylist()
    given = [value for value in values if value is not None]
    real = [value for value in given if not (isinstance(value, float) and math.isnan(value))]
    numbers = [float(value) for value in real if type(value) is not bool and _is_number(value)]
    has_order = not pa.types.is_list(rows.schema.field(name).type)
    return {
        "rows": len(values),
        "nulls": len(values) - len(given),
        "nans": len(given) - len(real),
        "min": min(real, default=None) if has_order else None,
        "max": max(real, default=None) if has_order else None,
        "mean": math.fsum(numbers) / len(numbers) if numbers else None,
    }


def _is_number(value: object) -> bool:
    return not isinstance(value, str | list | datetime.datetime)


def check_exact(found: ColumnStatistics, expected: dict[str, Any]) -> None:
    assert (found.rows, found.nulls, found.nans) == (expected["rows"], expected["nulls"], expected["nans"])
    assert (found.min, found.max) == (expected["min"], expected["max"])
    if expected["mean"] is None:
        assert found.mean is None
    else:
        assert found.mean is not None
        assert math.isclose(found.mean, expected["mean"], rel_tol=1e-9, abs_tol=1e-9)


@settings(max_examples=examples(25))
@given(layout=st.sampled_from(list(LAYOUTS)), region=st.none() | REGIONS, filters=st.sampled_from(FILTERS))
def test_exact_statistics_are_those_of_the_rows(
    many_kinds: dict[str, Published], layout: str, region: object, filters: str | None
) -> None:
    catalog = Catalog.open(many_kinds[layout].storage.uri())
    rows = catalog.read(region=region, filters=filters)
    found = catalog.statistics(region=region, filters=filters, exact=True)
    assert [each.name for each in found] == catalog.schema.names
    assert found.rows == rows.num_rows
    for each in found:
        check_exact(each, by_hand(rows, each.name))
        if each.name != "flux":
            assert each.known


@settings(max_examples=examples(25))
@given(layout=st.sampled_from(list(LAYOUTS)), region=st.none() | REGIONS, filters=st.sampled_from(FILTERS))
def test_what_footers_tell_is_true_and_what_they_do_not_is_unknown(
    many_kinds: dict[str, Published], layout: str, region: object, filters: str | None
) -> None:
    catalog = Catalog.open(many_kinds[layout].storage.uri())
    rows = catalog.read(region=region, filters=filters)
    found = catalog.statistics(region=region, filters=filters)
    for each in found:
        expected = by_hand(rows, each.name)
        assert each.rows == expected["rows"]
        assert each.known or each.name in ("flux", "mag"), each.name
        for name in ("nulls", "nans", "mean") + (("min", "max") if each.known else ()):
            value = getattr(each, name)
            if name == "mean" and value is not None:
                assert math.isclose(value, expected["mean"], rel_tol=1e-9, abs_tol=1e-9)
            else:
                assert value is None or value == expected[name], name
        if each.known:
            assert (each.nulls, each.min, each.max) == (expected["nulls"], expected["min"], expected["max"])


def test_no_row_group_is_read_for_footers_and_columns_are_described(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")
    catalog = Catalog.open(published.storage.uri())
    expected = {each.name: each for each in catalog.statistics(["id", "mag", "seen"])}
    for path in catalog.metadata.partitions("main", published.storage)["path"].to_pylist():
        place = Path(published.storage.uri(path))
        data = place.read_bytes()
        begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        place.write_bytes(b"PAR1" + bytes(begin - 4) + data[begin:])
    again = catalog.statistics(["id", "mag", "seen"])
    assert {each.name: each for each in again} == expected
    assert again["mag"].unit == "mag"
    assert again["mag"].ucd == "phot.mag;em.opt"
    assert again["mag"].description == "magnitude <G> & more"
    assert again["id"].known
    with pytest.raises(VerificationError):
        catalog.statistics(["id"], exact=True)


def rewritten(published: Published, change: Any) -> None:
    """Change the tables of all leaves of the primary group, and how they are written."""
    for path in published.metadata.partitions("main", published.storage)["path"].to_pylist():
        place = Path(published.storage.uri(path))
        table = pq.read_table(place)
        table, options = change(table)
        pq.write_table(table, place, **options)


def test_long_texts_and_leaves_of_nan_are_unknown_but_for_the_data(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")

    def change(table: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
        nan = pa.array(np.full(table.num_rows, np.nan, "f4"))
        texts = pa.array(["x" * 5000 + str(at) for at in range(table.num_rows)])
        for name, values in {"mag": nan, "note": texts}.items():
            at = table.column_names.index(name)
            table = table.set_column(at, table.schema.field(name), values)
        return table, {}

    rewritten(published, change)
    catalog = Catalog.open(published.storage.uri())
    footers, data = catalog.statistics(["mag", "note"]), catalog.statistics(["mag", "note"], exact=True)
    for each in footers:
        assert (each.min, each.max, each.known) == (None, None, False)
    assert (data["mag"].nans, data["mag"].min, data["mag"].mean, data["mag"].known) == (
        2500,
        None,
        None,
        True,
    )
    assert data["note"].min == "x" * 5000 + "0"


def test_bounds_of_texts_count_only_from_writers_that_keep_them_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish_many_kinds(tmp_path, "hats")
    catalog = Catalog.open(published.storage.uri())
    assert catalog.statistics(["note"])["note"].known
    monkeypatch.setattr("hipslake.api.column_statistics._WHOLE_BOUNDS", "another writer")
    told = catalog.statistics(["note", "id"])
    assert (told["note"].min, told["note"].known) == (None, False)
    assert told["note"].nulls == by_hand(catalog.read(["note"]), "note")["nulls"]
    assert told["id"].known


def test_files_without_statistics_and_files_older_than_a_column(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")
    rewritten(published, lambda table: (table.drop_columns(["note"]), {"write_statistics": False}))
    catalog = Catalog.open(published.storage.uri())
    told = catalog.statistics(["id", "note"])
    assert (told["id"].nulls, told["id"].min, told["id"].known) == (None, None, False)
    assert (told["note"].nulls, told["note"].min, told["note"].known) == (2500, None, True)
    check_exact(catalog.statistics(["id"], exact=True)["id"], by_hand(catalog.read(["id"]), "id"))


def test_times_beyond_those_of_python_are_texts(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")

    def change(table: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
        far = pa.array([400_000_000_000 * 10**6] * table.num_rows, pa.int64()).cast(pa.timestamp("us"))
        return table.set_column(table.column_names.index("seen"), "seen", far), {}

    rewritten(published, change)
    catalog = Catalog.open(published.storage.uri())
    for exact in (False, True):
        assert str(catalog.statistics(["seen"], exact=exact)["seen"].max).startswith("14645")


def test_a_damaged_leaf_and_a_wrong_column_are_told(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")
    catalog = Catalog.open(published.storage.uri())
    with pytest.raises(SchemaMismatchError, match="no column 'nope'"):
        catalog.statistics(["nope"])
    path = catalog.metadata.partitions("main", published.storage)["path"].to_pylist()[1]
    Path(published.storage.uri(path)).write_bytes(b"no parquet")
    with pytest.raises(VerificationError, match="cannot be read"):
        catalog.statistics(["id"])
    published.storage.delete(path)
    with pytest.raises(VerificationError, match="is missing"):
        catalog.statistics(["id"])


def test_statistics_are_a_frame_a_text_and_a_table_of_html(catalog: Catalog) -> None:
    found = catalog.statistics()
    frame = found.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == catalog.schema.names
    assert frame.loc["id", "max"] == found["id"].max
    assert "id (int64)" in repr(found)
    assert "magnitude &lt;G&gt; &amp; more" in found._repr_html_()
    with pytest.raises(KeyError):
        found["nope"]


@settings(max_examples=examples(25))
@given(
    layout=st.sampled_from(list(LAYOUTS)),
    column=st.sampled_from(["id", "mag", "ra", "price", "_healpix_29"]),
    bins=st.integers(1, 40) | st.just([-500.0, 0, 3.5, 15, 15.5, 200, 1e6]),
    region=st.none() | REGIONS,
    filters=st.sampled_from(FILTERS),
)
def test_a_histogram_is_that_of_numpy(
    many_kinds: dict[str, Published], layout: str, column: str, bins: Any, region: object, filters: str | None
) -> None:
    catalog = Catalog.open(many_kinds[layout].storage.uri())
    rows = catalog.read([column], region=region, filters=filters)[column]
    values = rows.drop_null().cast(pa.float64(), safe=False).to_numpy()
    real = values[~np.isnan(values)]
    found = catalog.histogram(column, bins, region=region, filters=filters)
    if isinstance(bins, int) and len(real):
        counts, edges = np.histogram(real, bins)
    else:
        counts, edges = np.histogram(real, bins, range=(0, 1))
    assert np.array_equal(found.edges, edges)
    assert np.array_equal(found.counts, counts)
    assert (found.nulls, found.nans) == (rows.null_count, len(values) - len(real))
    assert found.below == np.count_nonzero(real < edges[0])
    assert found.above == np.count_nonzero(real > edges[-1])
    assert found.counts.sum() + found.below + found.above + found.nulls + found.nans == len(rows)


@pytest.mark.sampled(3)
def test_a_histogram_of_a_given_range_and_of_times(catalog: Catalog) -> None:
    mags = catalog.read(["mag"])["mag"].drop_null().to_numpy().astype(float)
    found = catalog.histogram("mag", 10, range=(14, 15))
    assert np.array_equal(found.counts, np.histogram(mags[~np.isnan(mags)], 10, range=(14, 15))[0])
    assert found.unit == "mag"
    seen = catalog.read(["seen"])["seen"].drop_null().cast(pa.int64()).to_numpy()
    times = catalog.histogram("seen", 7)
    assert times.edges.dtype == np.dtype("datetime64[us]")
    assert np.array_equal(times.counts, np.histogram(seen.astype(float), 7)[0])
    ends = ("1985-01-01", datetime.datetime(1995, 1, 1, tzinfo=datetime.UTC))
    some = catalog.histogram("seen", 4, range=ends)
    low, high = (np.datetime64(end, "us").astype(int) for end in ("1985-01-01", "1995-01-01"))
    assert some.counts.sum() == np.count_nonzero((seen >= low) & (seen <= high))
    assert some.below == np.count_nonzero(seen < low)
    assert "7 bins" in repr(times)


def test_infinite_values_are_beyond_the_ranges(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")

    def change(table: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
        values = np.arange(table.num_rows, dtype="f4")
        values[:2] = [np.inf, -np.inf]
        at = table.column_names.index("mag")
        return table.set_column(at, table.schema.field("mag"), pa.array(values)), {}

    rewritten(published, change)
    catalog = Catalog.open(published.storage.uri())
    found = catalog.histogram("mag", 5)
    leaves = len(catalog.pixels)
    assert np.isfinite(found.edges).all()
    assert (found.below, found.above) == (leaves, leaves)
    assert found.counts.sum() == 2500 - 2 * leaves
    assert catalog.statistics(["mag"])["mag"].max == np.inf


def test_histograms_that_make_no_sense(catalog: Catalog) -> None:
    for wrong in (0, -1, [1.0], [2.0, 1.0], [0.0, np.nan]):
        with pytest.raises(SpecError, match="bins"):
            catalog.histogram("id", wrong)
    for ends in ((2, 1), (0, np.inf), (np.nan, 1)):
        with pytest.raises(SpecError, match="range"):
            catalog.histogram("id", 3, range=ends)
    for column in ("note", "flux", "good", "band"):
        with pytest.raises(SpecError, match="numbers, dates and timestamps"):
            catalog.histogram(column)
    with pytest.raises(SpecError, match="is no time"):
        catalog.histogram("seen", 3, range=("yesterday", "today"))
    with pytest.raises(SchemaMismatchError, match="nope"):
        catalog.histogram("nope")


def test_a_histogram_is_drawn(catalog: Catalog) -> None:
    from matplotlib.figure import Figure

    for column in ("mag", "seen"):
        axes = Figure().add_subplot()
        found = catalog.histogram(column, 6)
        assert found.plot(axes) is axes
        (steps,) = axes.patches
        assert np.array_equal(steps.get_data().values, found.counts)
        assert column in axes.get_xlabel()
