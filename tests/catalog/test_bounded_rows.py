"""Rows within bounds are those of `Catalog.read`, or some of them where a bound is met."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.bounded_rows import BoundedRows, ReadBounds, RowChoice, bounded_rows
from hipslake.catalog.comparing import footprint
from hipslake.errors import FilterError, SchemaMismatchError, VerificationError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.regions import parse_region

from tests.catalog.publishing import SHAPES, publish

pytestmark = pytest.mark.sampled(2)

REGIONS = (
    None,
    "cone 120 10 25deg",
    "box ra 350..40 dec -5..30",
    "polygon 10 0, 60 0, 30 40",
    "cone 5 80 1arcsec",
)
FILTERS = (None, "mag < 14", "note is null or mag > 18")
LONG = ReadBounds(seconds=60)


@pytest.fixture(scope="module", params=sorted(SHAPES))
def catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    published = publish(tmp_path_factory.mktemp("bounded"), rows=3000, **SHAPES[request.param])
    return Catalog(published.storage, published.metadata)


def read(catalog: Catalog, choice: RowChoice, bounds: ReadBounds = LONG, **asked: Any) -> BoundedRows:
    leaves = footprint(catalog.storage, catalog.metadata.groups[0])
    region = asked.pop("region", None)
    within = None if region is None else parse_region(region)
    return bounded_rows(
        catalog.storage, catalog.metadata, leaves, choice, region=within, bounds=bounds, **asked
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("small", [False, True])
def test_all_rows_are_those_of_a_read(catalog: Catalog, small: bool) -> None:
    bounds = LONG._replace(piece_bytes=1) if small else LONG
    for region, filters in product(REGIONS, FILTERS):
        expected = catalog.read(["id", "mag", "_healpix_29"], filters, region=region)
        found = read(
            catalog, RowChoice(10_000), bounds, columns=["id", "mag"], region=region, filters=filters
        )
        assert found.stopped is None
        assert found.total == expected.num_rows
        assert found.table.equals(expected.select(["id", "mag"]))
        assert found.h29.tolist() == expected["_healpix_29"].to_pylist()
        if filters is None and region is None:
            assert found.estimate == 3000


def test_positions_and_all_columns_are_those_of_a_read(catalog: Catalog) -> None:
    whole = catalog.read(region=REGIONS[1])
    found = read(catalog, RowChoice(10_000), region=REGIONS[1])
    assert found.table.equals(whole)
    assert found.ra == pytest.approx(whole["ra"].to_numpy())
    assert found.dec == pytest.approx(whole["dec"].to_numpy())


def test_the_first_rows_along_the_curve_come_first(catalog: Catalog) -> None:
    whole = catalog.read(["id"])
    for limit in (1, 7, 400, 2999):
        found = read(catalog, RowChoice(limit), columns=["id"])
        assert (found.stopped, found.total) == ("limit", None)
        assert found.table.equals(whole.slice(0, limit))
    found = read(catalog, RowChoice(3000), columns=["id"])
    assert (found.stopped, found.total) == (None, 3000)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("column", ["mag", "id", "note"])
@pytest.mark.parametrize("descending", [False, True])
def test_sorted_rows_are_the_first_of_pandas_order(catalog: Catalog, column: str, descending: bool) -> None:
    whole = catalog.read(["id", "mag", "note"], FILTERS[1]).to_pandas()
    ordered = whole.sort_values(column, ascending=not descending, kind="stable", na_position="last")
    for limit in (1, 50, 800):
        found = read(catalog, RowChoice(limit, column, descending), columns=["id", "mag"], filters=FILTERS[1])
        assert found.table["id"].to_pylist() == ordered["id"].head(limit).tolist()
        assert found.total == len(whole)
        assert found.stopped == ("limit" if limit < len(whole) else None)


def test_a_sample_is_the_same_each_time_and_even(catalog: Catalog) -> None:
    samples = [read(catalog, RowChoice(600, spread=True), columns=["id", "ra"]) for _ in range(2)]
    assert samples[0].table.equals(samples[1].table)
    assert (samples[0].total, samples[0].stopped) == (3000, "limit")
    assert (np.diff(samples[0].h29) >= 0).all()
    whole = catalog.read(["id", "_healpix_29"])
    assert set(samples[0].table["id"].to_pylist()) <= set(whole["id"].to_pylist())
    # A fifth of all: in each of the twelve base pixels within five standard deviations.
    all_in = np.bincount(whole["_healpix_29"].to_numpy() >> 58, minlength=12)
    some_in = np.bincount(samples[0].h29 >> 58, minlength=12)
    assert (np.abs(some_in - all_in / 5) <= 5 * np.sqrt(all_in * 0.16) + 1).all()
    fewer = read(catalog, RowChoice(100, spread=True), columns=["id"])
    assert set(fewer.table["id"].to_pylist()) <= set(samples[0].table["id"].to_pylist())


@pytest.mark.parametrize(
    ("bound", "why"),
    [
        ({"seconds": -1.0}, "time"),
        ({"rows": 500}, "rows"),
        ({"bytes": 4000}, "bytes"),
        ({"leaves": 3}, "rows"),
    ],
)
@pytest.mark.parametrize("choice", [RowChoice(5000), RowChoice(5000, "id"), RowChoice(5000, spread=True)])
def test_a_bound_ends_reading_and_is_told(
    catalog: Catalog, bound: dict[str, Any], why: str, choice: RowChoice
) -> None:
    found = read(catalog, choice, LONG._replace(piece_bytes=4000, **bound), columns=["id"])
    assert (found.stopped, found.total) == (why, None)
    assert found.table.num_rows < 3000
    assert found.estimate == 3000
    assert set(found.table["id"].to_pylist()) <= set(range(3000))


def test_rows_in_pixels_are_those_of_a_read(catalog: Catalog) -> None:
    h29 = catalog.read(["_healpix_29"])["_healpix_29"].to_numpy()[[5, 700, 2999]]
    found = read(catalog, RowChoice(100), columns=["id"], pixels=Intervals.union(h29, h29 + 1))
    assert found.table.equals(catalog.read(["id"], pixels=[(29, int(each)) for each in h29]))


def test_what_is_asked_wrongly_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="magn"):
        read(catalog, RowChoice(5), columns=["magn"])
    with pytest.raises(SchemaMismatchError, match="sorted"):
        read(catalog, RowChoice(5, "sorted"))
    with pytest.raises(FilterError):
        read(catalog, RowChoice(5), filters="mag <")
    with pytest.raises(SchemaMismatchError, match="choose fewer columns"):
        read(catalog, RowChoice(5), LONG._replace(row_group_bytes=10))


def test_a_column_without_an_order_is_no_column_to_sort_by(tmp_path: Path) -> None:
    from hipslake.catalog.bounded_rows import _check_sortable

    for kind in (pa.bool_(), pa.list_(pa.int8()), pa.binary()):
        with pytest.raises(SchemaMismatchError, match="has no order"):
            _check_sortable(pa.field("x", kind))


def test_a_leaf_that_is_gone_is_told(tmp_path: Path) -> None:
    published = publish(tmp_path, rows=300)
    catalog = Catalog(published.storage, published.metadata)
    published.storage.delete(published.metadata.partitions(None, published.storage)["path"][0].as_py())
    with pytest.raises(VerificationError, match="is missing"):
        read(catalog, RowChoice(300))
