"""Rows per pixel of the sky: from the map of a version, from its leaves, or counted in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.leaf_fetching import FetchedRead, Read, fetched_each, read_of
from hipslake.catalog.leaf_reads import LeafRead
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.engine.this_process import read_ahead
from hipslake.errors import CatalogFormatError
from hipslake.specs.catalog_spec import Layout
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER, WHOLE_SKY, Pixel
from hipslake.sphere.sky_cells import Footprint
from hipslake.storage.folder import Storage

MOST_COUNTED = 4_000_000
"""Most rows that are counted one by one for one answer."""
MOST_FILES = 256
"""Most leaf files that are opened for that."""
MOST_COVERAGES = 500
"""Most increments whose coverage is added up, where a version has no map."""
_FEW = 3


class Density(NamedTuple):
    """Rows in each pixel of an order, of the whole sky or of the pixels below one."""

    order: int
    counts: NDArray[np.int64] | NDArray[np.float64]  # NESTED, all pixels, also empty ones
    exact: bool  # False: rows of leaves are spread evenly over them


def sky_map(storage: Storage, metadata: CatalogMetadata) -> PointMap | None:
    """Rows per pixel of a version, as far as they were counted when the rows came; no leaf file is opened.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata

    Returns
    -------
    PointMap or None
        That of the version's HATS files, else the sum of what is kept of its increments; None where neither
        tells of all rows.
    """
    for find in (_of_the_view, _of_increments):
        found = find(storage, metadata)
        if found is not None and int(found.rows.sum()) == metadata.total_rows:
            return found
    return None


def _of_the_view(storage: Storage, metadata: CatalogMetadata) -> PointMap | None:
    if metadata.layout is not Layout.HATS:
        return None
    try:
        return PointMap.from_fits(storage.read(metadata.tree_file("point_map.fits")))
    except (FileNotFoundError, CatalogFormatError):  # not shown yet, or damaged
        return None


def _of_increments(storage: Storage, metadata: CatalogMetadata) -> PointMap | None:
    if metadata.rows_move or len(metadata.increment_writes) > MOST_COVERAGES:
        return None
    maps = []
    try:
        for increment in metadata.all_increments(storage):
            cells = increment.cells(storage)
            maps.append(PointMap.from_cells(*(cells[name].to_numpy() for name in ("order", "npix", "rows"))))
    except (FileNotFoundError, CatalogFormatError):  # the leaves tell as well
        return None
    return maps[0].plus(*maps[1:])


def density_of_map(counted: PointMap, order: int, pixel: Pixel | None) -> Density | None:
    """The rows per pixel of an order by a map; None where the map is coarser.

    Parameters
    ----------
    counted : PointMap
    order : int
        Not coarser than `pixel`.
    pixel : Pixel or None
        Only the pixels in it; None: the whole sky.
    """
    if counted.order < order:
        return None
    first, count = _numbers(order, pixel)
    numbers = counted.npix >> (2 * (counted.order - order))  # ascending
    low, high = np.searchsorted(numbers, [first, first + count]).tolist()
    return Density(order, _summed(numbers[low:high] - first, counted.rows[low:high], count), True)


def density_of_leaves(leaves: Footprint, order: int, pixel: Pixel | None) -> Density:
    """The rows per pixel of an order by the leaves that hold them; parameters as of `density_of_map`.

    The rows of leaves that are coarser than the order are spread evenly over their pixels.
    """
    first, count = _numbers(order, pixel)
    if pixel is not None:
        leaves = leaves.inside(pixel)
    shift = 2 * (MAX_ORDER - order)
    fine = leaves.order >= order
    counts = _summed((leaves.start[fine] >> shift) - first, leaves.rows[fine], count)
    if fine.all():
        return Density(order, counts, True)
    begin = leaves.start[~fine] >> shift
    width = np.int64(1) << (2 * (order - leaves.order[~fine].astype(np.int64)))
    steps = np.zeros(count + 1)  # what begins less what ends, so that a running sum gives the rest
    share = leaves.rows[~fine] / width
    np.add.at(steps, np.clip(begin - first, 0, count), share)
    np.add.at(steps, np.clip(begin + width - first, 0, count), -share)
    spread = np.maximum(np.cumsum(steps[:-1]), 0.0)
    spread[spread < share.min() / 2] = 0.0  # what doubles leave of a sum that is none
    return Density(order, counts + spread, False)


def counted_density(
    storage: Storage, metadata: CatalogMetadata, order: int, pixel: Pixel | None
) -> Density | None:
    """Count the rows per pixel of an order in the leaf files; parameters as of `density_of_map`.

    Returns
    -------
    Density or None
        None where more than `MOST_COUNTED` rows or `MOST_FILES` files would have to be read.

    Raises
    ------
    VerificationError
        A leaf file is missing or damaged.
    """
    begin, end = WHOLE_SKY if pixel is None else pixel.interval
    inside = Intervals.union([begin], [end])
    group = metadata.groups[0]
    if pixel is None and (group.rows > MOST_COUNTED or group.files > MOST_FILES):
        return None
    table = group.table_near(storage, inside.start, inside.stop)
    start, stop = leaf_spans(table)
    met = np.flatnonzero(inside.touch(start, stop))
    whole = np.maximum(stop[met] - start[met], 1)
    share = np.minimum(whole, end - begin) / whole  # of a leaf that holds the pixel, about
    rows = float((table["rows"].to_numpy()[met] * share).sum())
    if len(met) > MOST_FILES or rows > MOST_COUNTED:
        return None
    first, count = _numbers(order, pixel)
    shift = 2 * (MAX_ORDER - order)
    schema = group.to_arrow()

    chosen = table.select(["path", "bytes", "rows"]).take(pa.array(met)).to_pylist()
    reads = [
        read_of(
            LeafRead(
                storage,
                file["path"],
                schema,
                [HEALPIX_COLUMN],
                inside=inside,
                size=file["bytes"],
                rows=file["rows"],
            )
        )
        for file in chosen
    ]

    def counted(read: Read | FetchedRead) -> NDArray[np.int64]:
        found = read.table()
        return np.bincount((found[HEALPIX_COLUMN].to_numpy() >> shift) - first, minlength=count)

    counts = np.zeros(count, np.int64)
    for some in read_ahead(counted, fetched_each(storage, reads)):
        counts += some
    return Density(order, counts, True)


def density(
    storage: Storage,
    metadata: CatalogMetadata,
    counted: PointMap | None,
    leaves: Footprint,
    order: int,
    pixel: Pixel | None = None,
) -> Density:
    """Rows per pixel, exactly where that is possible within bounds.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    counted : PointMap or None
        As `sky_map` gives it.
    leaves : Footprint
        Of the primary column group.
    order : int
        Not coarser than `pixel`.
    pixel : Pixel, optional
        Only the pixels in it; the whole sky if not given.

    Returns
    -------
    Density
        Of the order, or of a coarser one where counting at the order would read too much.
    """
    if counted is not None and (by_map := density_of_map(counted, order, pixel)) is not None:
        return by_map
    by_leaves = density_of_leaves(leaves, order, pixel)
    if by_leaves.exact:
        return by_leaves
    if (by_rows := counted_density(storage, metadata, order, pixel)) is not None:
        return by_rows
    coarsest = _FEW if pixel is None else pixel.order + _FEW
    if counted is not None and coarsest <= counted.order < order:
        return density_of_map(counted, counted.order, pixel) or by_leaves
    return by_leaves


def _numbers(order: int, pixel: Pixel | None) -> tuple[int, int]:
    """The number of the first pixel of an order, and how many there are."""
    if pixel is None:
        return 0, 12 << (2 * order)
    deeper = 2 * (order - pixel.order)
    return pixel.npix << deeper, 1 << deeper


def _summed(at: NDArray[np.int64], rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Rows by place, of places that ascend."""
    counts = np.zeros(count, np.int64)
    if len(at):
        first = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
        counts[at[first]] = np.add.reduceat(rows, first)
    return counts
