"""Rows as column groups store them, held against numpy sorts of the source's table."""

from __future__ import annotations

import healpy
import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.placement import in_curve_order, place
from hipslake.catalog.schema import check_columns
from hipslake.specs.catalog_spec import CatalogSpec

GROUPS = [{"name": "main", "columns": ["ra", "dec"]}, {"name": "details", "columns": "*"}]


def spec_of(**fields: object) -> CatalogSpec:
    position = {"ra": "ra", "dec": "dec"} | fields.pop("position", {})  # type: ignore[operator]
    source = {"uri": "x", "format": "parquet"}
    return CatalogSpec.model_validate({"name": "stars", "source": source, "position": position} | fields)


def rows_of(rows: int = 300) -> pa.RecordBatch:
    """Rows of which some share their position, and some have none."""
    rng = np.random.default_rng(9)
    ra, dec = rng.uniform(0, 6.28, rows), rng.uniform(-1.57, 1.57, rows)
    ra[::3], dec[::3] = 1.0, 0.5
    dec[5::50] = np.nan
    names = [None if i % 7 == 0 else f"star {i}" for i in range(rows)]
    return pa.record_batch({"id": range(rows), "ra": ra, "name": names, "dec": dec})


def ordered(
    rows: pa.RecordBatch, spec: CatalogSpec, row_start: int = 0
) -> tuple[np.ndarray, dict[str, pa.RecordBatch]]:
    schemas = check_columns(spec, rows.schema)
    placed = place(rows, spec.position)
    return in_curve_order(rows, placed, position=spec.position, schemas=schemas, row_start=row_start)


def expected_order(rows: pa.RecordBatch, *, radians: bool) -> tuple[np.ndarray, np.ndarray]:
    """Places in the batch of the rows that have a position, in curve order, and their index."""
    ra, dec = rows["ra"].to_numpy(), rows["dec"].to_numpy()
    if radians:
        ra, dec = np.degrees(ra), np.degrees(dec)
    good = np.flatnonzero(~np.isnan(dec))
    index = healpy.ang2pix(2**29, ra[good], dec[good], nest=True, lonlat=True)
    order = np.lexsort((good, index))
    return good[order], index[order]


def test_rows_come_in_curve_order_and_in_source_order_where_they_share_a_pixel() -> None:
    rows = rows_of()
    keys, groups = ordered(rows, spec_of())
    places, index = expected_order(rows, radians=False)
    assert keys.tolist() == index.tolist()
    main = groups["main"]
    assert main.schema.names == ["_healpix_29", "id", "ra", "name", "dec"]
    assert main["_healpix_29"].to_pylist() == index.tolist()
    assert main.select(rows.schema.names).equals(rows.take(pa.array(places)))


@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_every_group_has_its_columns_and_the_row_number(layout: str) -> None:
    rows, start = rows_of(), 1 << 40
    spec = spec_of(layout=layout, column_groups=GROUPS, position={"unit": "rad"})
    _, groups = ordered(rows, spec, start)
    places, index = expected_order(rows, radians=True)
    added = ["ra_icrs", "dec_icrs"] if layout == "hats" else []
    assert groups["main"].schema.names == ["_healpix_29", "ra", "dec", *added, "_row"]
    assert groups["details"].schema.names == ["_healpix_29", "id", "name", *added, "_row"]
    for batch in groups.values():
        assert batch["_row"].to_pylist() == (places + start).tolist()
        assert batch["_healpix_29"].to_pylist() == index.tolist()
        for name in set(batch.schema.names) & set(rows.schema.names):
            assert batch[name].equals(rows[name].take(pa.array(places)))
    for name, source in zip(added, ("ra", "dec"), strict=False):
        expected = np.degrees(rows[source].to_numpy()[places])
        np.testing.assert_array_equal(groups["main"][name].to_numpy(), expected)


def test_columns_of_the_source_named_like_added_ones_are_kept_where_none_are_added() -> None:
    rows = rows_of().append_column("ra_icrs", pa.array([f"{i}h" for i in range(300)]))
    _, groups = ordered(rows, spec_of(layout="hipscat"))
    places, _ = expected_order(rows, radians=False)
    assert groups["main"]["ra_icrs"].to_pylist() == [f"{i}h" for i in places]


def test_batches_cut_anywhere_give_the_rows_of_the_whole() -> None:
    rows, spec = rows_of(), spec_of(layout="hipscat", column_groups=GROUPS)
    _, whole = ordered(rows, spec)
    cuts = [(0, 7), (7, 7), (7, 200), (200, 300)]
    pieces = [ordered(rows.slice(a, b - a), spec, a)[1]["details"] for a, b in cuts]
    together = pa.Table.from_batches(pieces).sort_by([("_healpix_29", "ascending"), ("_row", "ascending")])
    assert together.to_pylist() == whole["details"].to_pylist()


def test_a_batch_without_a_row_on_the_sky_gives_empty_groups_with_their_schema() -> None:
    rows = pa.record_batch({"id": [1], "ra": [1.0], "name": ["a"], "dec": [91.0]})
    keys, groups = ordered(rows, spec_of())
    assert keys.shape == (0,)
    assert groups["main"].num_rows == 0
    assert groups["main"].schema == check_columns(spec_of(), rows.schema)["main"]


def test_field_metadata_is_kept() -> None:
    rows = rows_of()
    schema = rows.schema.set(0, rows.schema.field("id").with_metadata({"unit": "none"}))
    _, groups = ordered(rows.cast(schema), spec_of())
    assert groups["main"].schema.field("id").metadata == {b"unit": b"none"}
