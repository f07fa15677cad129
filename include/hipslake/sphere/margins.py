"""Margins: which rows lie within a distance outside of which pixels of a tiling of the sky.

The tiles are the leaves of a catalog and, where it has none, the coarsest pixels between them. What may be
looked at is narrowed down without trigonometry, on the faces of HEALPix, by a bound that no row escapes; what
is left is held against the tiles' curved boundaries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.sphere.boundary import within_distance
from hipslake.sphere.faces import LEAST_STRETCH, depth_in, vectors_at
from hipslake.sphere.healpix import pixel_functions
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import MAX_ORDER, Pixel, coarsen, starts, stops
from hipslake.sphere.tree import PixelTree

_BORDER_LEVELS = 5  # the border of a pixel is told by cells of at most so many orders more


class MarginPairs(NamedTuple):
    """Rows, and the tiles outside of which they lie; int64[n] each, ascending by (tile, row)."""

    row: NDArray[np.int64]
    tile: NDArray[np.int64]


def radians_of(arcsec: float) -> float:
    """An angle in radians."""
    return float(np.radians(arcsec / 3600.0))


def margin_pairs(
    tiles: PixelTree,
    h29: NDArray[np.int64],
    ra: NDArray[np.float64],
    dec: NDArray[np.float64],
    arcsec: float,
) -> MarginPairs:
    """Find every tile that each row does not lie in, but within a distance of.

    Parameters
    ----------
    tiles : PixelTree
        They cover the whole sky, as `PixelTree.tiling` gives them.
    h29 : int64[n]
        `_healpix_29` of the rows: which tile they lie in.
    ra, dec : float64[n]
        Their positions, degrees.
    arcsec : float
        The distance, up to 30 degrees.

    Returns
    -------
    MarginPairs
        `row` is a place in `h29`, `tile` one in `tiles`. Exact to 1e-6 arcsec.
    """
    own = tiles.find(h29)
    row, tile = _candidates(tiles, h29, own, arcsec)
    near = within_distance(
        vectors_at(ra[row], dec[row]), tiles.order[tile], tiles.npix[tile], radians_of(arcsec)
    )
    row, tile = row[near], tile[near]
    along = np.lexsort((row, tile))
    return MarginPairs(row[along], tile[along])


def rows_within(
    pixel: Pixel, ra: NDArray[np.float64], dec: NDArray[np.float64], arcsec: float
) -> NDArray[np.bool_]:
    """Which rows outside of a pixel lie within a distance of it, bool[n]; positions in degrees."""
    order, npix = np.full(len(ra), pixel.order, np.int64), np.full(len(ra), pixel.npix, np.int64)
    return within_distance(vectors_at(ra, dec), order, npix, radians_of(arcsec))


def border_of(pixel: Pixel, arcsec: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Stretches of a pixel that hold all of its rows within a distance of its border, and maybe others.

    Returns
    -------
    start, stop : int64[m]
        Order-29 pixels, [start, stop); ascending and disjoint.
    """
    order = min(_reach_order(arcsec), pixel.order + _BORDER_LEVELS, MAX_ORDER)
    if order <= pixel.order:
        whole = pixel.interval
        return np.array(whole[:1]), np.array(whole[1:])
    number = np.int64(1) << 2 * (order - pixel.order)
    cells = np.arange(pixel.npix * number, (pixel.npix + 1) * number)
    start, stop = starts(order, cells), stops(order, cells)
    # The southern and the northern corner of a cell are the first and the last pixel in it.
    outermost = np.minimum(depth_in(pixel.order, start), depth_in(pixel.order, stop - 1)) == 0.0
    return start[outermost], stop[outermost]


def surroundings(start: int, stop: int, arcsec: float) -> Intervals:
    """A stretch of the curve and all that lies within a distance of it, and maybe more.

    Parameters
    ----------
    start, stop : int
        Order-29 pixels, [start, stop).
    arcsec : float
        The distance.

    Returns
    -------
    Intervals
        Of the cells around those that the stretch touches; of about a thousandth of its length, or as wide as
        the distance where that is more.
    """
    fine = MAX_ORDER - (max((stop - start - 1).bit_length(), 1) + 1) // 2 + _BORDER_LEVELS
    order = max(0, min(_reach_order(arcsec), fine, MAX_ORDER))
    shift = 2 * (MAX_ORDER - order)
    cells = np.unique(_with_neighbours(order, np.arange(start >> shift, ((stop - 1) >> shift) + 1)))
    cells = cells[cells >= 0]
    return Intervals.union(starts(order, cells), stops(order, cells))


def tiles_near(
    tiles: PixelTree, order: NDArray[np.int64], npix: NDArray[np.int64], arcsec: float
) -> NDArray[np.int64]:
    """The tiles that rows in some pixels may lie in or within a distance of, and maybe others.

    Parameters
    ----------
    tiles : PixelTree
        They cover the whole sky.
    order, npix : int64[n]
    arcsec : float

    Returns
    -------
    int64[m]
        Places in the tree, ascending.
    """
    reach = _reach_order(arcsec)
    coarse = np.minimum(order, reach)
    marked = np.zeros(len(tiles) + 1, np.int64)
    for level in np.unique(coarse).tolist():
        mine = coarse == level
        cells = np.unique(npix[mine] >> (2 * (order[mine] - level)))
        around = np.unique(_with_neighbours(level, cells))
        around = around[around >= 0]
        np.add.at(marked, np.searchsorted(tiles.stop, starts(level, around), side="right"), 1)
        np.add.at(marked, np.searchsorted(tiles.start, stops(level, around), side="left"), -1)
    return np.flatnonzero(np.cumsum(marked[:-1]) > 0)


def _reach_order(arcsec: float) -> int:
    """The highest order at which who leaves a pixel and its neighbours has gone farther than a distance."""
    order = int(np.floor(np.log2(LEAST_STRETCH / radians_of(arcsec))))
    return min(order, MAX_ORDER)


def _candidates(
    tiles: PixelTree, h29: NDArray[np.int64], own: NDArray[np.int64], arcsec: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of rows and other tiles that may be within the distance; no other pair is."""
    level = _reach_order(arcsec)
    rows = np.flatnonzero(_near_border(tiles, h29, own, radians_of(arcsec) / LEAST_STRETCH))
    cells, cell_of = np.unique(coarsen(h29[rows], level), return_inverse=True)
    around = _with_neighbours(level, cells)
    cell = np.repeat(np.arange(len(cells)), around.shape[1])[around.ravel() >= 0]
    around = around.ravel()[around.ravel() >= 0]
    first = np.searchsorted(tiles.stop, starts(level, around), side="right")
    last = np.searchsorted(tiles.start, stops(level, around), side="left")
    pairs = np.unique(cell.repeat(last - first) * len(tiles) + _ranges(first, last))
    cell, tile = np.divmod(pairs, max(len(tiles), 1))
    # From pairs of cells and tiles to those of rows and tiles.
    begin = np.searchsorted(cell, cell_of)
    end = np.searchsorted(cell, cell_of, side="right")
    row = rows.repeat(end - begin)
    tile = tile[_ranges(begin, end)]
    other = own[row] != tile
    return row[other], tile[other]


def _near_border(
    tiles: PixelTree, h29: NDArray[np.int64], own: NDArray[np.int64], way: float
) -> NDArray[np.bool_]:
    """Which rows are not deeper in their own tile than a way over the faces."""
    near = np.zeros(len(h29), bool)
    order = tiles.order[own]
    for level in np.unique(order).tolist():
        mine = np.flatnonzero(order == level)
        near[mine] = depth_in(level, h29[mine]) <= way
    return near


def _with_neighbours(order: int, npix: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pixels and those that touch them, int64[n, 9]; -1 where there is none."""
    around = pixel_functions().get_all_neighbours(1 << order, npix, nest=True)
    return np.concatenate([npix[None, :], np.asarray(around, np.int64).reshape(8, -1)]).T


def _ranges(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """All numbers of the ranges [first, last), one range after another."""
    lengths = last - first
    return (
        np.arange(lengths.sum())
        - np.repeat(np.cumsum(lengths) - lengths, lengths)
        + np.repeat(first, lengths)
    )
