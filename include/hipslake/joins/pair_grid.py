"""Pairs of near positions, found on the HEALPix grid that the rows are sorted by.

A base pixel is a square of coordinates x and y in [0, 1], which `_healpix_29` holds with interleaved bits. A
path of angle d on the sphere moves each of them by at most `STRETCH` times d, wherever it is. So for a row
that lies farther from the border of its base pixel, everything within a radius r lies in a square of half the
side `STRETCH * r` around it, and that touches at most 2 x 2 cells of a grid whose cells are twice as wide as
the half side. A cell is a HEALPix pixel, that is a run of rows sorted by `_healpix_29`: looking it up is one
binary search. Rows near the border take the eight neighbours of their cell at the next coarser order instead.

Source of the projection: Gorski et al. 2005, ApJ 622, 759, section 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.sphere.array_columns import ArrayColumns
from hipslake.sphere.curve import curve_order
from hipslake.sphere.faces import places, spread_bits
from hipslake.sphere.pixels import MAX_ORDER, pixel_functions

if TYPE_CHECKING:
    from hipslake.joins.error_regions import ErrorRegions

STRETCH = 1.4520
"""Largest change of x or y per radian: sqrt(3/2 + 6/pi**2), at a pole along the edge of a base pixel."""
MAX_RADIUS = 0.04
"""Largest radius in radians, a little over two degrees; beyond it cells would be as large as base pixels."""
CHUNK_PAIRS = 1 << 21

_SIDE = 1 << MAX_ORDER
_FINEST = 27


@dataclass(frozen=True)
class SkyPositions:
    """Rows on the sky.

    Attributes
    ----------
    ra, dec : float64[n]
        ICRS degrees.
    h29 : int64[n]
        `_healpix_29` of these positions, in any order.
    errors : ErrorRegions or None
        How well the positions are known; None: exactly.
    values : pyarrow.Table or None
        What a score of pairs asks for.
    """

    ra: NDArray[np.float64]
    dec: NDArray[np.float64]
    h29: NDArray[np.int64]
    errors: ErrorRegions | None = None
    values: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.h29)

    def take(self, rows: NDArray[np.int64] | slice) -> SkyPositions:
        """Some of the rows."""
        errors = None if self.errors is None else self.errors.select(rows)
        values = self.values
        if values is not None:
            places = np.arange(len(self))[rows] if isinstance(rows, slice) else rows
            values = values.take(pa.array(places))
        return SkyPositions(self.ra[rows], self.dec[rows], self.h29[rows], errors, values)

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """Unit vectors, float64[3, n]."""
        lon, lat = np.radians(self.ra), np.radians(self.dec)
        across = np.cos(lat)
        return np.stack([across * np.cos(lon), across * np.sin(lon), np.sin(lat)])


@dataclass(frozen=True)
class Pairs(ArrayColumns):
    """Pairs of rows of two sides.

    Attributes
    ----------
    left, right : int64[m]
    chord2 : float64[m]
        Square of the straight distance of the two directions: `(2 sin(separation / 2))**2`.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    chord2: NDArray[np.float64]


def chord_of(angle: float) -> float:
    """The chord of an angle in radians.

    >>> round(chord_of(np.pi / 3), 12)
    1.0
    """
    return float(2.0 * np.sin(angle / 2.0))


class Grid:
    """Cells that hold, for every row of one side, all rows of the other within a radius.

    Parameters
    ----------
    left, right : SkyPositions
    radius : float
        Radians, at most `MAX_RADIUS`.

    Attributes
    ----------
    candidates : int
        Pairs that have to be looked at.
    """

    def __init__(self, left: SkyPositions, right: SkyPositions, radius: float) -> None:
        if not 0.0 < radius <= MAX_RADIUS:
            raise ValueError(f"a radius of {radius} radians is not in (0, {MAX_RADIUS}]")
        self._swapped = len(left) < len(right)
        self._base, self._probe = (right, left) if self._swapped else (left, right)
        self._along = None if _ascends(self._base.h29) else np.argsort(self._base.h29, kind="stable")
        keys = self._base.h29 if self._along is None else self._base.h29[self._along]
        reach = int(np.ceil(STRETCH * radius * _SIDE)) + 2  # the index itself was rounded
        order = min(_FINEST, MAX_ORDER - (2 * reach - 1).bit_length())
        # One entry for every probe row and cell that it looks into: `slot` is its place in the probe.
        self._slot, first, count = _lookups(keys, self._probe.h29, reach, order)
        self._first, self._count = first, count
        self._radius = radius
        self.candidates = int(count.sum())

    def pairs(self) -> Pairs:
        """All pairs within the radius, which counts as within; in no particular order."""
        none = np.empty(0, np.int64)
        return Pairs.together([Pairs(none, none, np.empty(0)), *self.chunks()])

    def chunks(self, candidates: int = CHUNK_PAIRS) -> Iterator[Pairs]:
        """The pairs within the radius, from so many candidates at a time, or those of one row and cell."""
        ends = np.cumsum(self._count)
        limit = chord_of(self._radius) ** 2
        low = 0
        while low < len(ends):
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + candidates, side="right")))
            counts = self._count[low:high]
            total = int(ends[high - 1]) - before
            shift = self._first[low:high] - (ends[low:high] - counts - before)
            base = np.arange(total) + np.repeat(shift, counts)
            probe = np.repeat(self._slot[low:high], counts)
            if self._along is not None:
                base = self._along[base]
            difference = self._directions(self._base, base)
            difference -= self._directions(self._probe, probe)
            difference *= difference
            # Written out: what sums along an axis rounds differently for different shapes.
            chord2 = difference[0] + difference[1] + difference[2]
            near = np.flatnonzero(chord2 <= limit)
            one, other, chord2 = base[near], probe[near], chord2[near]
            yield Pairs(other, one, chord2) if self._swapped else Pairs(one, other, chord2)
            low = high

    def _directions(self, side: SkyPositions, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Unit vectors of some rows, which may repeat: of all rows at once only where that is less work."""
        return side.directions[:, rows] if self.candidates > len(side) else side.take(rows).directions


def _lookups(
    keys: NDArray[np.int64], probe: NDArray[np.int64], reach: int, order: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each probe row and cell with base rows: the probe row, the first of the base rows, and how many.

    Sorted by the probe row, so that rows that are gathered together lie together.
    """
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []

    def look(rows: NDArray[np.int64], cells: NDArray[np.int64], at_order: int) -> None:
        hit, first, count = _rows_in(keys, cells, at_order)
        found.append((rows[hit], first, count))

    face, x, y = places(MAX_ORDER, probe)
    top = _SIDE - reach
    inner = (x >= reach) & (x < top) & (y >= reach) & (y < top)
    rows = np.flatnonzero(inner)
    x, y, face = x[rows], y[rows], face[rows] << (2 * order)
    shift = MAX_ORDER - order
    low_x, high_x = spread_bits((x - reach) >> shift), spread_bits((x + reach) >> shift)
    low_y, high_y = spread_bits((y - reach) >> shift) << 1, spread_bits((y + reach) >> shift) << 1
    look(rows, face | low_x | low_y, order)
    wide, tall = high_x != low_x, high_y != low_y
    for several, across, up in ((wide, high_x, low_y), (tall, low_x, high_y), (wide & tall, high_x, high_y)):
        at = np.flatnonzero(several)
        look(rows[at], face[at] | across[at] | up[at], order)
    edge = np.flatnonzero(~inner)
    if len(edge):
        coarser = order - 1
        own = probe[edge] >> (2 * (MAX_ORDER - coarser))
        look(edge, own, coarser)
        for beside in pixel_functions().get_all_neighbours(1 << coarser, own, nest=True):
            there = np.flatnonzero(beside >= 0)
            look(edge[there], beside[there], coarser)
    slot, first, count = (np.concatenate(parts) for parts in zip(*found, strict=True))
    along = curve_order(slot)
    return slot[along], first[along], count[along]


def _rows_in(
    keys: NDArray[np.int64], cells: NDArray[np.int64], order: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of some cells, those that hold rows: their places in the list, the first row and the number of rows."""
    shift = 2 * (MAX_ORDER - order)
    first = np.searchsorted(keys, cells << shift)
    if not len(keys):
        return first[:0], first[:0], first[:0]
    final = len(keys) - 1
    hit = np.flatnonzero(keys[np.minimum(first, final)] >> shift == cells)
    first, cells = first[hit], cells[hit]
    count = np.ones(len(hit), np.int64)
    # Most cells hold one row: only where the next row is in the cell too is its end looked up.
    several = np.flatnonzero((first < final) & (keys[np.minimum(first + 1, final)] >> shift == cells))
    count[several] = np.searchsorted(keys, (cells[several] + 1) << shift) - first[several]
    return hit, first, count


def _ascends(keys: NDArray[np.int64]) -> bool:
    return bool(np.all(keys[1:] >= keys[:-1]))
