"""What a published catalog gives back, held against the table that it was made from."""

from __future__ import annotations

import json
from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hipslake import Catalog
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    SchemaMismatchError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.sphere.pixels import Pixel
from hipslake.storage.folder import Storage

from tests.catalog.publishing import SHAPES, Published, commit, publish


def opened(published: Published) -> Catalog:
    return Catalog.open(published.storage.uri())


def index(published: Published) -> np.ndarray:
    return healpy.ang2pix(2**29, *published.degrees, nest=True, lonlat=True)


def in_curve_order(published: Published, rows: np.ndarray | None = None) -> pa.Table:
    """The source rows (all, or a mask of them), sorted by numpy."""
    order = np.lexsort((np.arange(len(published.source)), index(published)))
    return published.source.take(order if rows is None else order[rows[order]])


def test_a_whole_read_is_the_source_along_the_curve(published: Published) -> None:
    table = opened(published).read()
    assert table.select(published.source.schema.names).equals(in_curve_order(published))
    assert table["_healpix_29"].to_pylist() == sorted(index(published).tolist())


def test_the_schema_is_what_a_read_gives(published: Published) -> None:
    catalog = opened(published)
    assert catalog.read().schema.equals(catalog.schema)
    assert catalog.schema.names[0] == "_healpix_29"
    assert ("_row" in catalog.schema.names) == (len(catalog.groups) > 1)
    empty = catalog.read(filters=pc.field("id") < 0)
    assert empty.num_rows == 0
    assert empty.schema.equals(catalog.schema)


def test_columns_come_in_the_order_asked_for_whatever_their_group(published: Published) -> None:
    table = opened(published).read(columns=["note", "id", "mag"])
    assert table.equals(in_curve_order(published).select(["note", "id", "mag"]))


def test_no_columns_are_no_columns(published: Published) -> None:
    assert opened(published).read(columns=[]).num_columns == 0


@pytest.mark.parametrize(
    "filters",
    [
        (pc.field("mag") < 14) & (pc.field("id") > 900),
        [[("mag", "<", 14.0), ("id", ">", 900)]],
    ],
    ids=["expression", "lists"],
)
def test_filters_reach_over_column_groups(published: Published, filters: object) -> None:
    frame = published.source.to_pandas()
    rows = ((frame["mag"] < 14) & (frame["id"] > 900)).to_numpy()
    assert 0 < rows.sum() < len(rows)
    assert (
        opened(published)
        .read(columns=["note"], filters=filters)
        .equals(in_curve_order(published, rows).select(["note"]))
    )


def test_a_filter_on_expressions_of_columns_that_are_not_read(published: Published) -> None:
    rows = published.source["dec"].to_numpy() + published.source["ra"].to_numpy() < 90
    table = opened(published).read(columns=["id"], filters=pc.field("dec") + pc.field("ra") < 90)
    assert table.equals(in_curve_order(published, rows).select(["id"]))


def test_pixels_of_any_order_select_the_rows_inside(published: Published) -> None:
    catalog = opened(published)
    leaf = next(pixel for pixel in catalog.pixels if pixel.order > 0)
    child = list(catalog.pixels)[-1].children()[2]
    wanted = [Pixel(0, 4), leaf, child, leaf.children()[0], Pixel(3, 700)]
    h29 = index(published)
    rows = np.zeros(len(h29), bool)
    for order, npix in wanted:
        rows |= h29 >> (2 * (29 - order)) == npix
    assert 0 < rows.sum() < len(rows)
    for columns in (["id"], ["id", "note"], ["mag"]):
        assert catalog.read(columns, pixels=wanted).equals(in_curve_order(published, rows).select(columns))


def test_without_columns_rows_are_counted(published: Published) -> None:
    catalog = opened(published)
    assert catalog.read([]).schema == pa.schema([])
    assert catalog.read([]).num_rows == catalog.read(["id"]).num_rows
    north = pc.field("dec") > 0
    assert 0 < catalog.read([], filters=north).num_rows == catalog.read(["id"], filters=north).num_rows


def test_many_small_pixels_in_one_leaf(published: Published) -> None:
    h29 = index(published)
    wanted = [(12, int(npix)) for npix in np.unique(h29 >> 34)[::3]]
    rows = np.isin(h29 >> 34, [npix for _, npix in wanted])
    table = opened(published).read(["id", "mag"], filters=pc.field("dec") > 0, pixels=wanted)
    rows &= published.degrees[1] > 0
    assert table.equals(in_curve_order(published, rows).select(["id", "mag"]))


def test_pixels_that_hold_nothing_give_nothing(published: Published) -> None:
    catalog = opened(published)
    assert catalog.read(pixels=[]).equals(catalog.schema.empty_table())
    with pytest.raises(ValueError, match="no pixel of order 2 with number 192"):
        catalog.read(pixels=[(1, 0), (2, 192)])


def test_only_the_needed_leaves_are_opened(grouped: Published) -> None:
    catalog = opened(grouped)
    for path in catalog.metadata.partitions("details", grouped.storage)["path"].to_pylist():
        grouped.storage.delete(path)
    first, *others = catalog.metadata.partitions("main", grouped.storage).to_pylist()
    for leaf in others:
        grouped.storage.delete(leaf["path"])
    assert catalog.read(["id", "ra"], pixels=[(first["order"], first["npix"])]).num_rows == first["rows"]


def test_groups_alone_hold_their_own_columns(grouped: Published) -> None:
    catalog = opened(grouped)
    assert catalog.groups == ["main", "details"]
    details = catalog.read(group="details")
    assert details.schema.equals(catalog.schema_of("details"))
    assert details.schema.names == ["_healpix_29", "mag", "note", "_row"]
    assert len(catalog.pixels_of("details")) > len(catalog.pixels)
    with pytest.raises(KeyError, match="no column group 'detail'; it has main, details"):
        catalog.read(group="detail")


def test_tables_stream_the_same_rows_leaf_by_leaf(published: Published) -> None:
    catalog = opened(published)
    tables = list(catalog.tables())
    assert len(tables) == len(catalog.pixels)
    assert pa.concat_tables(tables).equals(catalog.read())


def test_pandas_gets_the_same_rows(single: Published) -> None:
    frame = opened(single).to_pandas(columns=["id", "dec"], filters=[("dec", ">", 0)])
    expected = in_curve_order(single, single.degrees[1] > 0).select(["id", "dec"]).to_pandas()
    assert frame.equals(expected)


def test_a_catalog_in_an_object_store_reads_and_verifies_alike(grouped: Published) -> None:
    store = Storage.at("memory://test_catalog/stars")
    for entry in grouped.storage.list(recursive=True):
        store.write(entry.path, grouped.storage.read(entry.path))
    catalog = Catalog.open("memory://test_catalog/stars")
    assert catalog.read().equals(opened(grouped).read())
    assert catalog.verify().ok
    gone = catalog.metadata.partitions("details", store)["path"][0].as_py()
    store.delete(gone)
    assert [problem.path for problem in catalog.verify().problems] == [gone]
    with pytest.raises(VerificationError, match=f"{gone} is missing"):
        catalog.read()


@pytest.mark.parametrize("shape", ["hats", "hipscat, two groups"])
def test_plain_readers_find_the_same_rows_by_glob(tmp_path: Path, shape: str) -> None:
    published = publish(tmp_path, **SHAPES[shape])
    catalog = opened(published)
    name = "main.parquet" if "hipscat" in shape else "Npix=*.parquet"
    files = sorted(str(path) for path in Path(catalog.path("main")).glob(f"**/Norder=*/**/{name}"))
    plain = ds.dataset(files).to_table(columns=["id", "ra", "dec"])
    assert plain.sort_by("id").equals(catalog.read(["id", "ra", "dec"]).sort_by("id"))


def test_pixel_at_finds_the_leaf_of_every_row(published: Published) -> None:
    catalog = opened(published)
    ra, dec = published.degrees
    for group in catalog.groups:
        order, npix = catalog.pixel_at(ra, dec, group=group)
        assert npix.tolist() == healpy.ang2pix(2**order, ra, dec, nest=True, lonlat=True).tolist()
        assert set(zip(order.tolist(), npix.tolist(), strict=True)) == set(catalog.pixels_of(group))


def test_pixel_at_wraps_longitudes_and_keeps_shapes(single: Published) -> None:
    catalog = opened(single)
    ra, dec = (values[:6].reshape(2, 3) for values in single.degrees)
    here = catalog.pixel_at(ra, dec)
    assert here.order.shape == (2, 3)
    for turned in (ra - 360, ra + 360):
        there = catalog.pixel_at(turned, dec)
        assert (there.order == here.order).all()
        assert (there.npix == here.npix).all()
    assert int(catalog.pixel_at(ra[0, 0], dec[0, 0]).npix) == here.npix[0, 0]


def test_pixel_at_is_minus_one_where_the_catalog_is_empty(tmp_path: Path) -> None:
    published = publish(tmp_path, cap=5.0, **SHAPES["hats"])
    found = opened(published).pixel_at([0.0, 123.0, 0.0], [90.0, -80.0, -90.0])
    assert found.npix.tolist()[1:] == [-1, -1]
    assert found.order.tolist()[1:] == [-1, -1]
    assert found.order[0] >= 0


@pytest.mark.parametrize(
    ("dec", "what"), [(90.5, r"dec outside \[-90, 90\]"), (np.nan, "null or NaN"), (np.inf, "infinite")]
)
def test_pixel_at_names_a_position_that_is_not_on_the_sky(single: Published, dec: float, what: str) -> None:
    with pytest.raises(ValueError, match=f"position 1 .*{what}"):
        opened(single).pixel_at([10.0, 20.0], [0.0, dec])


def test_a_catalog_opens_at_its_newest_or_at_any_version(single: Published) -> None:
    newer = single.metadata.model_copy(update={"version": 2, "parent": 1, "write_id": "20261122T0000-0001"})
    commit(single.storage, newer)
    assert opened(single).version == 2
    old = Catalog.open(single.storage.uri(), version=1)
    assert (old.version, old.name, old.versions()) == (1, "stars", [1, 2])
    assert repr(old) == f"Catalog({single.storage.uri()!r}, version=1)"
    with pytest.raises(VersionNotFoundError, match=r"version 3 .*there are: 1, 2"):
        Catalog.open(single.storage.uri(), version=3)


@pytest.mark.parametrize("version", [None, 4])
def test_where_nothing_is_published_the_error_says_so(tmp_path: Path, version: int | None) -> None:
    with pytest.raises(CatalogNotFoundError, match="nothing is published"):
        Catalog.open(tmp_path / "nowhere", version)


def test_damaged_or_newer_metadata_is_a_format_error(single: Published) -> None:
    path = Path(single.storage.uri("_versions/00000001.json"))
    data = json.loads(path.read_text())
    for damage, message in (
        (path.read_text()[:300], "not JSON"),
        (json.dumps(data | {"format_version": 3}), "format version 3.*upgrade"),
        (json.dumps(data | {"total_rows": "many"}), "total_rows"),
        (json.dumps(data | {"version": 7}), "says that it is version 7"),
    ):
        path.write_text(damage)
        with pytest.raises(CatalogFormatError, match=message):
            Catalog.open(single.storage.uri(), version=1)


def test_an_unknown_column_is_named_with_its_neighbours(published: Published) -> None:
    with pytest.raises(SchemaMismatchError, match="no column 'note_'; did you mean 'note'"):
        opened(published).read(columns=["id", "note_"])
    with pytest.raises(SchemaMismatchError, match=r"filter .*magnitude.* does not fit"):
        opened(published).read(columns=["id"], filters=pc.field("magnitude") < 3)


def test_a_missing_or_damaged_leaf_is_named(published: Published) -> None:
    catalog = opened(published)
    first, second = catalog.metadata.partitions("main", published.storage)["path"].to_pylist()[:2]
    published.storage.delete(first)
    with pytest.raises(VerificationError, match=f"{first} is missing"):
        catalog.read(["id"])
    published.storage.write(first, published.storage.read(second)[:-40])
    with pytest.raises(VerificationError, match=f"{first} cannot be read"):
        catalog.read(["id"])


def test_groups_that_do_not_fit_are_not_joined(grouped: Published) -> None:
    catalog = opened(grouped)
    paths = catalog.metadata.partitions("details", grouped.storage)["path"].to_pylist()
    grouped.storage.write(paths[0], grouped.storage.read(paths[1]))
    with pytest.raises(VerificationError, match="'main' and 'details' do not hold the same rows"):
        catalog.read(["id", "note"])
