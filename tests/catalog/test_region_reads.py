"""Reads of regions: the rows of a brute-force cut, from only the files and row groups that may hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from astropy.coordinates import SkyCoord
from hipslake import Catalog
from hipslake.catalog.leaf import encode_leaf
from hipslake.errors import FilterError, RegionError
from hipslake.sphere.pixels import Pixel, order29
from hipslake.sphere.regions import Box, Cone, Moc, PixelList, Polygon, Region
from hipslake.storage.folder import Storage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.little import sky, write_little
from tests.catalog.publishing import SHAPES, Published, commit, publish, stars
from tests.examples import examples
from tests.sphere.regions.skies import REGIONS

KINDS = [
    Cone(56.75, 10, 20),
    Cone(0, 90, 15),
    Cone(10, 10, 0),
    Cone(10, 10, 180),
    Box(350, 10, -5, 25),
    Box(0, 360, -90, 90),
    Box(0, 360, 80, 90),
    Polygon([(340, 0), (20, 0), (0, 40)]),
    Polygon([(0, 70), (120, 70), (240, 70)]),
    PixelList([(1, 5), (3, 300)]),
    PixelList([]),
]


HOLE_BYTES = 8 << 10  # Arrow fetches gaps of so many bytes along


def opened(published: Published) -> Catalog:
    return Catalog.open(published.storage.uri())


def in_curve_order(published: Published, rows: np.ndarray) -> pa.Table:
    order = np.lexsort((np.arange(len(rows)), order29(*published.degrees)))
    return published.source.take(order[rows[order]])


@pytest.mark.sampled(7)
@pytest.mark.parametrize("region", KINDS, ids=str)
def test_a_region_gives_the_rows_of_the_brute_force_cut(published: Published, region: Region) -> None:
    catalog = opened(published)
    rows = region.contains(*published.degrees)
    expected = in_curve_order(published, rows)
    for columns in (["id", "ra", "dec", "mag", "note"], ["id"], ["mag"], ["note", "id"]):
        assert catalog.read(columns, region=region).equals(expected.select(columns))
    assert catalog.read([], region=region).num_rows == rows.sum()
    assert catalog.read(region=str(region)).schema.equals(catalog.schema)
    assert sum(table.num_rows for table in catalog.tables(["id"], region=region)) == rows.sum()
    assert len(catalog.to_pandas(["id"], region=region)) == rows.sum()
    for group in catalog.groups:
        table = catalog.read(group=group, region=region)
        assert table.schema.equals(catalog.schema_of(group))
        assert table.num_rows == rows.sum()


def test_a_cone_is_what_astropy_says(published: Published) -> None:
    center = SkyCoord(80, 12, unit="deg")
    for radius in (0.5, 3, 40, 120):
        rows = SkyCoord(*published.degrees, unit="deg").separation(center).deg <= radius
        table = opened(published).read(["id"], region=Cone(80, 12, radius))
        assert table.equals(in_curve_order(published, rows).select(["id"]))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Two column groups that are split differently, with stars on the borders of things."""
    return publish(tmp_path_factory.mktemp("crowd"), rows=6000, **SHAPES["hipscat, two groups"])


@settings(max_examples=examples(60))
@given(region=REGIONS, at=st.integers(0, 5999), with_filter=st.booleans())
def test_any_region_gives_the_rows_of_the_brute_force_cut(
    crowd: Published, region: Region, at: int, with_filter: bool
) -> None:
    catalog = opened(crowd)
    near = Cone(crowd.degrees[0][at], crowd.degrees[1][at], 1e-4)
    for each in (region, near):
        rows = each.contains(*crowd.degrees)
        filters = None
        if with_filter:
            filters = pc.field("mag") < 15
            rows &= pc.less(crowd.source["mag"], 15).fill_null(False).to_numpy()
        table = catalog.read(["note", "id"], filters, region=each)
        assert table.equals(in_curve_order(crowd, rows).select(["note", "id"]))
    assert with_filter or catalog.read([], region=near).num_rows >= 1


def test_regions_pixels_and_filters_combine(published: Published) -> None:
    catalog, cone = opened(published), Cone(80, 12, 60)
    pixels = [Pixel(0, 4), Pixel(2, 20), Pixel(0, 11)]
    h29 = order29(*published.degrees)
    inside = np.zeros(len(h29), bool)
    for pixel in pixels:
        inside |= (h29 >= pixel.interval[0]) & (h29 < pixel.interval[1])
    faint = pc.greater(published.source["mag"], 15).fill_null(False).to_numpy()
    rows = cone.contains(*published.degrees) & inside & faint
    assert 0 < rows.sum() < inside.sum()
    table = catalog.read(["id", "note"], "mag > 15", pixels, region=cone)
    assert table.equals(in_curve_order(published, rows).select(["id", "note"]))


@pytest.mark.parametrize(("unit", "frame"), [("rad", "icrs"), ("deg", "galactic"), ("rad", "fk5")])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_positions_of_other_units_and_frames_are_cut_in_icrs(
    tmp_path: Path, unit: str, frame: str, layout: str
) -> None:
    degrees = sky(3000)
    place = SkyCoord(*degrees, unit="deg").transform_to(frame)
    lon, lat = (place.l, place.b) if frame == "galactic" else (place.ra, place.dec)
    source = stars((lon.to_value(unit), lat.to_value(unit)))
    storage = Storage.at(tmp_path / "stars")
    position = {"ra": "ra", "dec": "dec", "unit": unit, "frame": frame}
    commit(storage, write_little(storage, source, degrees, position=position, layout=layout))
    catalog, cone = Catalog.open(storage.uri()), Cone(80, 12, 30)
    rows = cone.contains(*degrees)
    assert set(catalog.read(["id"], region=cone)["id"].to_pylist()) == set(source["id"].to_numpy()[rows])


def test_pixels_in_a_region_are_found_without_reading(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = opened(published)
    monkeypatch.setattr(Storage, "open", None)
    monkeypatch.setattr(Storage, "arrow_filesystem", None)
    for group in catalog.groups:
        tree = catalog.pixels_of(group)
        region = Cone(80, 12, 10)
        rows = order29(*published.degrees)[region.contains(*published.degrees)]
        found = catalog.pixels_in(region, group)
        assert set(tree.find(rows).tolist()) <= {list(tree).index(pixel) for pixel in found}
        assert 0 < len(found) < len(tree)
        assert catalog.pixels_in("cone 80 12 180deg", group) == tree
        assert len(catalog.pixels_in(PixelList([]), group)) == 0


def test_only_overlapping_leaves_and_row_groups_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every range of bytes that is asked for is held against the footers."""
    degrees = sky(200_000)
    storage = Storage.at("memory://regions")
    metadata = write_little(
        storage,
        stars(degrees),
        degrees,
        position={"ra": "ra", "dec": "dec"},
        encode=_in_small_row_groups,
        threshold="40000 rows",
    )
    commit(storage, metadata)
    catalog, cone = Catalog.open(storage.uri()), Cone(80, 12, 3)
    asked: dict[str, list[tuple[int, int]]] = {}
    for name in ("read_range", "range_buffer"):
        fetch = getattr(Storage, name)

        def counted(self: Storage, path: str, start: int, stop: int, fetch: Any = fetch) -> Any:
            asked.setdefault(path, []).append((start, stop))
            return fetch(self, path, start, stop)

        monkeypatch.setattr(Storage, name, counted)
    table = catalog.read(["id", "mag"], region=cone)
    assert table.num_rows == cone.contains(*degrees).sum() > 100
    near = {
        path
        for path, order, npix in zip(
            *metadata.partitions("main", storage).select(["path", "order", "npix"]), strict=True
        )
        if Pixel(order.as_py(), npix.as_py()) in set(catalog.pixels_in(cone))
    }
    assert set(asked) == {path.as_py() for path in near}
    assert len(asked) < len(catalog.pixels) / 4
    monkeypatch.setattr(Storage, "read_range", fetch)
    cover = cone.cover().intervals
    skipped = 0
    for path, ranges in asked.items():
        size = storage.entry(path).size
        data = [(start, stop) for start, stop in ranges if stop < size]  # what is left is the footer
        assert len(ranges) - len(data) <= 2
        footer = pq.read_metadata(storage.arrow_path(path), filesystem=storage.arrow_filesystem())
        touched = []
        for number in range(footer.num_row_groups):
            row_group = footer.row_group(number)
            columns = [row_group.column(i) for i in range(row_group.num_columns)]
            start = min(column.dictionary_page_offset or column.data_page_offset for column in columns)
            stop = start + sum(column.total_compressed_size for column in columns)
            fetched = sum(max(0, min(b, stop) - max(a, start)) for a, b in data)
            limits = columns[0].statistics
            touched.append(len(cover.within(limits.min, limits.max + 1)) > 0)
            assert (fetched > HOLE_BYTES) == touched[-1]
        between = touched[touched.index(True) : len(touched) - touched[::-1].index(True)]
        skipped += between.count(False)
    assert skipped > 5, "row groups in the gaps of the cover"


def _in_small_row_groups(row_groups: list[pa.Table], schema: pa.Schema, options: dict[str, Any]) -> pa.Buffer:
    rows = pa.concat_tables(row_groups)
    return encode_leaf([rows.slice(at, 1000) for at in range(0, len(rows), 1000)], schema, options)


def test_mocs_are_read_from_files(single: Published, tmp_path: Path) -> None:
    from mocpy import MOC

    catalog = opened(single)
    text = "3/1-40 5/7000 7002 10/7654321"
    moc = MOC.from_string(text)
    (tmp_path / "ascii.txt").write_text("3/1-40\n5/7000 7002\n10/7654321\n29/\n")
    moc.save(tmp_path / "moc.json", format="json")
    moc.save(tmp_path / "ranges.fits", format="fits")
    moc.save(tmp_path / "nuniq.fits", format="fits", v1_compatible=True)  # as MOC 1 had it
    expected = catalog.read(region=f"moc {text}")
    assert 0 < expected.num_rows < 3000
    assert expected.num_rows == moc.contains_skycoords(SkyCoord(*single.degrees, unit="deg")).sum()
    for name in ("ascii.txt", "moc.json", "ranges.fits", "nuniq.fits"):
        assert catalog.read(region=f"moc {tmp_path}/{name}").equals(expected)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.fits", None, "does not exist"),
        ("image.fits", b"SIMPLE  =                    T" + b" " * 2850, "no FITS file of a MOC"),
        ("some.json", b'{"3": 1}', "list of pixels"),
        ("some.json", b'{"3": [1', "no MOC in FITS, JSON or text"),
        ("some.json", b'{"3": [999]}', "no pixels 999 of order 3"),
        ("some.txt", b" \n", "nothing is in it"),
        ("some.json", b"{}", "nothing is in it"),
        ("some.txt", b"\xff\xfe", "no MOC in FITS, JSON or text"),
        ("some.txt", b"cone 1 2 3deg", "holds other than orders and pixels"),
    ],
)
def test_files_that_hold_no_moc(
    single: Published, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RegionError, match=message):
        opened(single).read(region=f"moc {tmp_path}/{name}")


def test_a_moc_in_a_store_is_read(storage: Storage, single: Published) -> None:
    storage.write("a/sky.moc", b"0/0-11")
    assert opened(single).read(region=f"moc {storage.uri('a/sky.moc')}").num_rows == 3000


def test_texts_that_are_no_region_or_filter(single: Published) -> None:
    with pytest.raises(RegionError, match="write cone"):
        opened(single).read(region="cone 1 2")
    with pytest.raises(RegionError, match="write moc"):
        opened(single).read(region="moc 3/1--4")
    for wrong in (5, (10.0, 20.0, 3.0), b"cone 1 2 3deg"):
        with pytest.raises(RegionError, match="a region is one of hipslake"):
            opened(single).pixels_in(wrong)  # type: ignore[arg-type]
    with pytest.raises(FilterError, match="did you mean 'mag'"):
        opened(single).read(filters="mga < 4")


def test_a_moc_of_many_pixels_cuts_leaves(single: Published) -> None:
    h29 = order29(*single.degrees)
    moc = Moc(PixelList([(14, int(npix)) for npix in np.unique(h29 >> 30)[::2]]).cover().intervals)
    rows = moc.contains(*single.degrees)
    assert 1000 < rows.sum() < 2000
    assert opened(single).read(["id"], region=moc).equals(in_curve_order(single, rows).select(["id"]))
