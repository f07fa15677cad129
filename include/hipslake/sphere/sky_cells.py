"""Leaves of a sky, gathered into so few cells that a screen can show them; sums stay exact.

Everything works on order-29 starts along the curve: two neighbours lie in one pixel of an order where their
starts have the same upper bits. So the cells of any order are runs, and their sums are one `reduceat`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.sphere.pixels import MAX_ORDER, Pixel

MOST_CELLS = 50_000
"""More than this a map of the whole sky does not show apart."""
FINEST_CELL = 20
"""No cell is of a higher order: its pixels are 0.2 arcseconds wide, and their numbers are exact as floats."""


class Footprint(NamedTuple):
    """Files along the curve: arrays of one length. Files of one leaf stand together."""

    start: NDArray[np.int64]  # first order-29 pixel of the leaf
    order: NDArray[np.int8]
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]

    def inside(self, pixel: Pixel) -> Footprint:
        """The files of the leaves that overlap a pixel.

        Examples
        --------
        >>> leaves = Footprint(*(np.array(column) for column in ([0, 1 << 58], [0, 0], [7, 9], [70, 90])))
        >>> leaves.inside(Pixel(3, 1 << 6)).rows
        array([9])
        """
        low, high = pixel.interval
        first = int(np.searchsorted(self.start, low))
        if first < len(self.start) and int(self.start[first]) == low:
            pass  # a leaf begins with the pixel: none before it reaches in
        elif first and int(self.start[first - 1]) + (1 << 2 * (MAX_ORDER - int(self.order[first - 1]))) > low:
            first = int(np.searchsorted(self.start, self.start[first - 1]))
        last = int(np.searchsorted(self.start, high))
        part = slice(first, last)
        return Footprint(self.start[part], self.order[part], self.rows[part], self.bytes[part])


class Cells(NamedTuple):
    """Disjoint pixels along the curve, and what each of them stands for; arrays of one length."""

    order: NDArray[np.int8]
    npix: NDArray[np.int64]
    rows: NDArray[np.int64]
    bytes: NDArray[np.int64]
    partitions: NDArray[np.int64]  # leaves in the cell
    files: NDArray[np.int64]
    finest: NDArray[np.int8]  # highest order of a leaf in it
    filled: NDArray[np.float64]  # share of its area that leaves cover


def gather(leaves: Footprint, most: int = MOST_CELLS) -> Cells:
    """The cells of the highest order that gives at most so many.

    A cell with a single leaf has that leaf's own order, so a catalog of few leaves comes out as it is.

    Parameters
    ----------
    leaves : Footprint
        Disjoint, along the curve.
    most : int
        At least 12.

    Examples
    --------
    >>> start = np.arange(64) << 52
    >>> sky = Footprint(start, np.full(64, 3, np.int8), np.ones(64, int), np.ones(64, int))
    >>> gather(sky, most=20).partitions  # 16 cells of order 2
    array([4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4])
    """
    if most < 12:
        raise ValueError(f"a sky of {most} cells: order 0 has 12 already; allow more")
    if not len(leaves.start):
        return Cells(*(np.empty(0, kind) for kind in _KINDS))
    apart = leaves.start[1:] ^ leaves.start[:-1]
    order = _highest_order(apart, most)
    first = np.flatnonzero(np.append(True, apart >= _width(order)))
    begins_leaf = np.append(True, apart != 0)
    finest = np.maximum.reduceat(leaves.order, first)
    partitions = np.add.reduceat(begins_leaf, first, dtype=np.int64)
    cell_order = np.where(partitions == 1, np.minimum(finest, FINEST_CELL), order).astype(np.int8)
    covered = np.add.reduceat(
        np.where(begins_leaf, np.ldexp(1.0, -2 * leaves.order.astype(np.int32)), 0.0), first
    )
    return Cells(
        order=cell_order,
        npix=leaves.start[first] >> (2 * (MAX_ORDER - cell_order.astype(np.int64))),
        rows=np.add.reduceat(leaves.rows, first),
        bytes=np.add.reduceat(leaves.bytes, first),
        partitions=partitions,
        files=np.diff(np.append(first, len(leaves.start))),
        finest=finest,
        filled=covered * np.ldexp(1.0, 2 * cell_order.astype(np.int32)),
    )


_KINDS = (np.int8, *[np.int64] * 5, np.int8, np.float64)


def _width(order: int) -> int:
    return 1 << 2 * (MAX_ORDER - order)


def _highest_order(apart: NDArray[np.int64], most: int) -> int:
    """The highest order at which neighbours that are so far apart make at most so many cells."""
    low, high = 0, FINEST_CELL
    while low < high:
        middle = (low + high + 1) // 2
        if np.count_nonzero(apart >= _width(middle)) < most:
            low = middle
        else:
            high = middle - 1
    return low
