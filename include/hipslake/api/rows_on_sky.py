"""Where on the sky the rows of a version lie: its coverage, and rows per pixel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.api.scan import Scan
from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.coverage import map_of_files
from hipslake.catalog.density import sky_map
from hipslake.catalog.hats.point_map import MAP_ORDER, PointMap
from hipslake.catalog.hats.skymap import SKY_DEG2
from hipslake.catalog.partitions import leaf_spans, summed_by_leaf
from hipslake.catalog.reading import Part
from hipslake.engine.this_process import read_ahead
from hipslake.errors import SpecError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER
from hipslake.sphere.regions import Moc
from hipslake.versions.vacuumed_versions import vacuum_told

_FEWEST_ROWS = 8  # per pixel with rows, on average: with fewer, a map shows single rows
_COARSEST_MAP = 3


def coverage_of(catalog: CatalogReader, order: int | None) -> Moc:
    """The part of the sky that has rows; as `Catalog.coverage`."""
    if order is None:
        tree = catalog.pixels
        return Moc(Intervals.union(tree.start, tree.stop))
    if not 0 <= order <= MAX_ORDER:
        raise SpecError(f"order is {order}: pixels have orders 0 to {MAX_ORDER}")
    counted = _counted(catalog)
    if counted.order >= order:
        return _moc(counted.npix >> (2 * (counted.order - order)), order)
    return _moc(_occupied(catalog, order), order)


class SkyRows(NamedTuple):
    """Rows in disjoint pixels along the NESTED curve."""

    pixels: PixelTree
    rows: NDArray[np.int64]

    @property
    def density(self) -> NDArray[np.float64]:
        """Rows per square degree of each pixel, float64[n]."""
        area = SKY_DEG2 / (12.0 * 4.0**self.pixels.order)
        return np.asarray(self.rows / area, np.float64)


def rows_per_pixel(catalog: CatalogReader, order: int | None) -> SkyRows:
    """Rows per pixel, as they were counted by ingests and nights; no leaf file is opened.

    Of a catalog in mode upsert whose HATS files are not of this version, leaf files are counted.

    Parameters
    ----------
    catalog : CatalogReader
    order : int or None
        Of the pixels. None: the deepest at which they have some rows each; or the leaves, where these are
        finer than what was counted.

    Raises
    ------
    SpecError
        Rows were not counted so deep.
    """
    counted = _counted(catalog)
    if order is not None and not 0 <= order <= counted.order:
        raise SpecError(
            f"order is {order}: rows of catalog {catalog.name} are counted at orders 0 to {counted.order}"
        )
    if order is None:
        leaves = summed_by_leaf(catalog.metadata.partitions(None, catalog.storage))
        if leaves.num_rows > len(counted.npix):
            rows = leaves["rows"].to_numpy()
            return SkyRows(PixelTree(leaves["order"].to_numpy(), leaves["npix"].to_numpy()), rows)
        order = counted.order
        while order > _COARSEST_MAP and counted.rows.sum() < _FEWEST_ROWS * len(_at(counted, order).npix):
            order -= 1
    found = _at(counted, order)
    return SkyRows(PixelTree(np.full(len(found.npix), found.order), found.npix), found.rows)


def _at(counted: PointMap, order: int) -> PointMap:
    cells = np.full(len(counted.npix), counted.order), counted.npix, counted.rows
    return PointMap.from_cells(*cells, highest_order=order)


def _counted(catalog: CatalogReader) -> PointMap:
    """Rows per pixel, of the coarsest order at which an increment was counted; at most 8."""
    metadata, storage = catalog.metadata, catalog.storage
    if metadata.rows_move:  # increments do not tell which of their rows stand
        with vacuum_told(storage, catalog.version):
            found = sky_map(storage, metadata)
            if found is None:
                found = map_of_files(
                    storage, metadata.groups[0], metadata.partitions(None, storage)["path"].to_pylist()
                )
        return found
    with vacuum_told(catalog.storage, catalog.version):
        tables = [increment.cells(catalog.storage) for increment in catalog.increments]
    columns = (np.concatenate([t[name].to_numpy() for t in tables]) for name in ("order", "npix", "rows"))
    return PointMap.from_cells(*columns, highest_order=MAP_ORDER)


def _occupied(catalog: CatalogReader, order: int) -> NDArray[np.int64]:
    """The pixels of an order that have rows: leaves that lie in one need no look at their rows."""
    start, stop = leaf_spans(catalog.metadata.partitions(None, catalog.storage))
    shift = 2 * (MAX_ORDER - order)
    small = stop - start <= 1 << shift
    reader, parts = Scan.of(catalog, [HEALPIX_COLUMN], group=catalog.groups[0]).reading()

    def pixels(part: Part) -> NDArray[np.int64]:
        return np.unique(reader.read(part)[HEALPIX_COLUMN].to_numpy() >> shift)

    large = [part for part in parts if part.stop - part.start > 1 << shift]
    return np.unique(np.concatenate([start[small] >> shift, *read_ahead(pixels, reader.ahead(large))]))


def _moc(npix: NDArray[np.int64], order: int) -> Moc:
    shift = 2 * (MAX_ORDER - order)
    return Moc(Intervals.union(npix << shift, (npix + 1) << shift))
