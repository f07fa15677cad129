"""Margins: which rows lie within a distance outside of which pixels of a tiling of the sky.

The tiles are the leaves of a catalog and, where it has none, the coarsest pixels between them. What may be
looked at is narrowed down without trigonometry, on the faces of HEALPix, by a bound that no row escapes; what
is left is held against the tiles' curved boundaries: an edge is a curve on the sphere whose second derivative
is bounded, so between two of its points it stays that close to the straight chord. Where a chord does not
decide, the edge is cut into finer ones. Nothing is assumed about where on an edge the nearest place is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.sphere.faces import LEAST_STRETCH, RING_OF_CORNER, depth_in, places, vectors_on
from hipslake.sphere.intervals import Intervals, range_numbers
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import MAX_ORDER, Pixel, coarsen, pixel_functions, starts, stops
from hipslake.sphere.vectors import unit_vectors

_DECIDED = 1e-13  # radians (2e-8 arcsec): closer to the limit than that, either answer is right
_PIECES = 4  # that an edge is cut into where it has to be cut
_PAIRS = 1 << 16  # looked at together: the arrays stay small
_MOST_CELLS = 1 << 18  # by which places are widened
_FINEST_CELLS = 12  # their order: finer ones than 52 arcsec gain little
_BORDER_LEVELS = 5  # the border of a pixel is found with cells of at most so many orders more


def within_distance(
    vectors: NDArray[np.float64],
    order: NDArray[np.int64],
    npix: NDArray[np.int64],
    radians: float,
) -> NDArray[np.bool_]:
    """Which positions lie within a great-circle distance of the boundary of a pixel.

    Parameters
    ----------
    vectors : float64[n, 3]
        Unit vectors of the positions.
    order, npix : int64[n]
        The pixel that each position is held against.
    radians : float
        The distance, below pi.

    Returns
    -------
    bool[n]
        Right to 1e-7 arcsec.
    """
    found = np.zeros(len(npix), bool)
    for start in range(0, len(npix), _PAIRS):
        piece = slice(start, start + _PAIRS)
        found[piece] = _within(vectors[piece], order[piece], npix[piece], 2.0 * np.sin(radians / 2.0))
    return found


class _Edges(NamedTuple):
    """Pieces of pixels' edges, each with the position it is held against."""

    pair: NDArray[np.int64]
    face: NDArray[np.int64]
    along_y: NDArray[np.bool_]  # else along x
    fixed: NDArray[np.float64]  # the other coordinate
    low: NDArray[np.float64]  # from here
    high: NDArray[np.float64]  # to here

    def select(self, chosen: NDArray[np.bool_]) -> _Edges:
        return _Edges._make(column[chosen] for column in self)

    def cut(self) -> _Edges:
        """All pieces in equal finer ones."""
        steps = np.arange(_PIECES) / _PIECES
        width = (self.high - self.low)[:, None]
        low = self.low[:, None] + width * steps
        high = np.append(low[:, 1:], self.high[:, None], axis=1)
        repeated = (np.repeat(column, _PIECES) for column in self[:4])
        return _Edges._make([*repeated, low.ravel(), high.ravel()])

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Unit vectors of both ends, float64[n, 3] each."""
        return self._at(self.low), self._at(self.high)

    def bend(self) -> NDArray[np.float64]:
        """How far a piece strays from its chord, at most: a bound of the second derivative times h**2 / 8.

        By coordinate of the face it is below 2 in the equatorial zone. In the polar ones, at a way s from the
        pole and u from the meridian at which the face ends, it is below 2 + 2.1 u**2 / s**3.
        """
        ring = RING_OF_CORNER[self.face] - self.fixed
        north = np.minimum(ring - self.high, ring - self.low)
        south = np.minimum(4.0 - ring + self.high, 4.0 - ring + self.low)
        upper = self.face < 4
        s = np.where(upper, north, south)
        u = np.where(upper, 1.0 - self.fixed, self.fixed)
        polar = (upper | (self.face > 7)) & (s < 1.0) & (u > 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            second = 2.0 + np.where(polar, 2.1 * u * u / (s * s * s), 0.0)
        return second * (self.high - self.low) ** 2 / 8.0

    def _at(self, moving: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.where(self.along_y, self.fixed, moving)
        y = np.where(self.along_y, moving, self.fixed)
        return vectors_on(self.face, x, y)


def _within(
    vectors: NDArray[np.float64], order: NDArray[np.int64], npix: NDArray[np.int64], chord: float
) -> NDArray[np.bool_]:
    found = np.zeros(len(npix), bool)
    edges = _edges_of(order, npix)
    while len(edges.pair):
        away = _distance(vectors[edges.pair], *edges.ends())
        bend = edges.bend()
        decided = bend < _DECIDED
        found[edges.pair[away <= np.where(decided, chord, chord - bend)]] = True
        edges = edges.select((away <= chord + bend) & ~decided & ~found[edges.pair]).cut()
    return found


def _edges_of(order: NDArray[np.int64], npix: NDArray[np.int64]) -> _Edges:
    """The four edges of every pixel."""
    face, column, row = places(order, npix)
    side = 2.0**-order
    pair = np.arange(len(npix))
    x, y = column * side, row * side
    next_x, next_y = (column + 1) * side, (row + 1) * side
    yes, no = np.ones(len(npix), bool), np.zeros(len(npix), bool)
    four = [
        _Edges(pair, face, yes, x, y, next_y),
        _Edges(pair, face, yes, next_x, y, next_y),
        _Edges(pair, face, no, y, x, next_x),
        _Edges(pair, face, no, next_y, x, next_x),
    ]
    return _Edges._make(np.concatenate(columns) for columns in zip(*four, strict=True))


def _distance(
    position: NDArray[np.float64], begin: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Straight distance of positions from chords, float64[n]."""
    way = end - begin
    there = position - begin
    length = np.einsum("ij,ij->i", way, way)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(np.nan_to_num(np.einsum("ij,ij->i", there, way) / length), 0.0, 1.0)
    rest = there - share[:, None] * way
    return np.sqrt(np.einsum("ij,ij->i", rest, rest))


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
        unit_vectors(ra[row], dec[row]), tiles.order[tile], tiles.npix[tile], radians_of(arcsec)
    )
    row, tile = row[near], tile[near]
    along = np.lexsort((row, tile))
    return MarginPairs(row[along], tile[along])


def rows_within(
    pixel: Pixel, ra: NDArray[np.float64], dec: NDArray[np.float64], arcsec: float
) -> NDArray[np.bool_]:
    """Which rows outside of a pixel lie within a distance of it, bool[n]; positions in degrees."""
    order, npix = np.full(len(ra), pixel.order, np.int64), np.full(len(ra), pixel.npix, np.int64)
    return within_distance(unit_vectors(ra, dec), order, npix, radians_of(arcsec))


def border_of(pixel: Pixel, arcsec: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Stretches of a pixel that hold all of its rows within a distance of its border, and maybe others.

    Returns
    -------
    start, stop : int64[m]
        Order-29 pixels, [start, stop); ascending and disjoint.
    """
    order, cells = _border_cells(pixel, arcsec)
    return starts(order, cells), stops(order, cells)


def borders_of(
    order: NDArray[np.int64], npix: NDArray[np.int64], arcsec: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cells that hold all rows of some pixels within a distance of the border of theirs, and maybe others.

    Parameters
    ----------
    order, npix : int64[n]
        The pixels.
    arcsec : float
        The distance.

    Returns
    -------
    order, npix : int64[m]
        What is near these cells is near the border of one of the pixels, at most about a cell farther off.
    """
    orders, pixels = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for pixel in zip(order.tolist(), npix.tolist(), strict=True):
        level, cells = _border_cells(Pixel(*pixel), arcsec)
        orders.append(np.full(len(cells), level, np.int64))
        pixels.append(cells)
    return np.concatenate(orders), np.concatenate(pixels)


def _border_cells(pixel: Pixel, arcsec: float) -> tuple[int, NDArray[np.int64]]:
    """The order and the numbers of the cells along the border of a pixel; of a small one, the pixel."""
    order = min(_reach_order(arcsec), pixel.order + _BORDER_LEVELS, MAX_ORDER)
    if order <= pixel.order:
        return pixel.order, np.array([pixel.npix])
    number = np.int64(1) << 2 * (order - pixel.order)
    cells = np.arange(pixel.npix * number, (pixel.npix + 1) * number)
    start, stop = starts(order, cells), stops(order, cells)
    # The southern and the northern corner of a cell are the first and the last pixel in it.
    outermost = np.minimum(depth_in(pixel.order, start), depth_in(pixel.order, stop - 1)) == 0.0
    return order, cells[outermost]


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


def widened(places: Intervals, arcsec: float, *, finest: int = _FINEST_CELLS) -> Intervals:
    """Some places and all that lies within a distance of them, and maybe more.

    Parameters
    ----------
    places : Intervals
    arcsec : float
        The distance.
    finest : int
        The highest order of the cells.

    Returns
    -------
    Intervals
        The places, and whole cells around them: as wide as the distance, or wider where places are many.
    """
    order = max(0, min(_reach_order(arcsec), finest))
    while order and (covered := places.in_pixels_of(order)).sky_fraction * (12 << 2 * order) > _MOST_CELLS:
        order -= 1
    covered, shift = places.in_pixels_of(order), 2 * (MAX_ORDER - order)
    inside = range_numbers(covered.start >> shift, (covered.stop - covered.start) >> shift)
    # Sorted, which is faster than to look for those that are the same, as the union takes them once.
    cells = np.sort(_with_neighbours(order, inside), axis=None)
    cells = cells[np.searchsorted(cells, 0) :]
    return Intervals.together([places, Intervals.union(starts(order, cells), stops(order, cells))])


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
    """The highest order at which every path out of a pixel and its neighbours is longer than a distance."""
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
    pairs = np.unique(cell.repeat(last - first) * len(tiles) + range_numbers(first, last - first))
    cell, tile = np.divmod(pairs, max(len(tiles), 1))
    # From pairs of cells and tiles to those of rows and tiles.
    begin = np.searchsorted(cell, cell_of)
    end = np.searchsorted(cell, cell_of, side="right")
    row = rows.repeat(end - begin)
    tile = tile[range_numbers(begin, end - begin)]
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
