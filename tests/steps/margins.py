"""What the margins of a catalog must be, by brute force over all of its rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.catalog.metadata import Margin
from hipslake.sphere.margin_geometry import rows_within
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import Pixel

ALONG = [("_healpix_29", "ascending"), ("_row", "ascending")]


def expected_margin(catalog: Catalog, arcsec: float) -> dict[Pixel, pa.Table]:
    """Every pixel of the tiling with rows near to it: all rows of the catalog are held against each."""
    rows = catalog.read(group=catalog.groups[0])
    position = catalog.metadata.position
    ra, dec = (rows[name].to_numpy() for name in (position.icrs_ra or "ra", position.icrs_dec or "dec"))
    h29 = rows["_healpix_29"].to_numpy()
    expected = {}
    for pixel in _tiles(catalog.pixels):
        outside = (h29 < pixel.interval[0]) | (h29 >= pixel.interval[1])
        chosen = outside & rows_within(pixel, ra, dec, arcsec)
        if chosen.any():
            expected[pixel] = rows.filter(pa.array(chosen))
    return expected


def stored_margin(catalog: Catalog, margin: Margin) -> dict[Pixel, pa.Table]:
    """The margin as its files have it, by plain pyarrow."""
    schema = catalog.metadata.schema_of(margin.group)
    found = {}
    for part in margin.table(catalog.storage).to_pylist():
        table = pq.ParquetFile(pa.BufferReader(catalog.storage.read(part["path"]))).read()
        assert table.num_rows == part["rows"]
        assert Pixel(part["order"], part["npix"]) not in found
        if set(table.schema.names) == set(schema.names):
            assert table.schema.names == schema.names
        else:  # older than a column
            missing = [field for field in schema if field.name not in table.schema.names]
            for field in missing:
                table = table.append_column(field, pa.nulls(len(table), field.type))
        found[Pixel(part["order"], part["npix"])] = table.select(schema.names).cast(schema)
    return found


def assert_margins_are_exact(catalog: Catalog) -> dict[float, int]:
    """Hold every margin against brute force; give the rows of each."""
    counts = {}
    for margin in catalog.metadata.margins:
        expected = expected_margin(catalog, margin.radius_arcsec)
        stored = stored_margin(catalog, margin)
        assert set(stored) == set(expected)
        for pixel, rows in expected.items():
            assert _plain(stored[pixel]).equals(_plain(rows)), (margin.name, pixel)
        counts[margin.radius_arcsec] = sum(len(rows) for rows in stored.values())
        assert margin.rows == counts[margin.radius_arcsec]
        assert margin.files == len(stored)
    return counts


def _plain(table: pa.Table) -> pa.Table:
    """The rows with values in the place of dictionaries, which differ where the values do not."""
    types = [field.type for field in table.schema]
    plain = [each.value_type if pa.types.is_dictionary(each) else each for each in types]
    columns = [column.cast(each) for column, each in zip(table.columns, plain, strict=True)]
    return pa.table(columns, table.schema.names).combine_chunks()


def _tiles(tree: PixelTree) -> list[Pixel]:
    """The leaves and the coarsest pixels between them, found by walking down from the base pixels."""
    leaves, tiles = set(tree), []
    above = set(leaves)
    for leaf in leaves:
        while leaf.order:
            leaf = leaf.parent()
            above.add(leaf)
    waiting = [Pixel(0, npix) for npix in range(12)]
    while waiting:
        pixel = waiting.pop()
        if pixel in leaves or pixel not in above:
            tiles.append(pixel)
        else:
            waiting += pixel.children()
    return tiles
