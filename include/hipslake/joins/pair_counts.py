"""How many pairs of two sides are within a radius, and how far apart they are, without a list of them.

Where a radius holds few rows, their pairs are listed a bounded number at a time. Where it holds a crowd, rows
are put into cells. Of two cells, all pairs are within the limits, or none, or it is not known: then both are
cut into smaller ones, until they hold so few rows that their pairs are looked at one by one. What is known of
cells is safe from rounding, and pairs are held against the limits as the match itself does it: so the numbers
are those of the match.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.pair_grid import MAX_RADIUS, Grid, SkyPositions, chord_of
from hipslake.joins.sky_separations import ARCSEC, separation_of
from hipslake.sphere.intervals import range_numbers
from hipslake.sphere.pixels import MAX_ORDER, pixel_functions

_CROWD = 250  # candidates for each row of both sides: from so many on, cells are sooner done
_FEW_PAIRS = 32  # of two cells: looked at sooner than the cells are cut
_CELL_PAIRS = 1 << 15  # worked on at once, before they are cut
_AT_ONCE = 1 << 16  # pairs of rows: what is worked out of them stays in the caches of a core
_SLACK = 1e-14  # of chords, and a hundred times as much of their length: more than rounding makes of them


class PairCounts(NamedTuple):
    """Pairs that were counted.

    Attributes
    ----------
    pairs : int
    histogram : int64[bins] or None
        Of their separations, as `numpy.histogram`; None: no edges were given.
    """

    pairs: int
    histogram: NDArray[np.int64] | None


def pair_counts(
    left: SkyPositions,
    right: SkyPositions,
    *,
    radius_arcsec: float,
    min_radius_arcsec: float = 0.0,
    edges: NDArray[np.float64] | None = None,
) -> PairCounts:
    """Count all pairs within two limits, both of which count as within.

    Parameters
    ----------
    left, right : SkyPositions
        Their errors and values do not matter here.
    radius_arcsec, min_radius_arcsec : float
    edges : float64[bins + 1], optional
        Ascending; arcseconds. Of bins in which the separations are counted, the last one closed.

    Examples
    --------
    >>> zero = np.zeros(3)
    >>> side = SkyPositions(np.array([0.0, 1.0, 4.0]) / 3600, zero, np.zeros(3, np.int64))
    >>> pair_counts(side, side, radius_arcsec=3.0, edges=np.array([0.0, 0.5, 3.0]))
    PairCounts(pairs=7, histogram=array([3, 4]))
    """
    found = _Counting(left, right, (min_radius_arcsec, radius_arcsec), edges)
    if len(left) and len(right):
        found.count()
    return PairCounts(found.pairs, found.histogram)


@dataclass(frozen=True)
class _Cells:
    """Cells of one order that hold rows, along the curve.

    Attributes
    ----------
    first : int64[n + 1]
        Of every cell, the place of its first row; then the number of rows.
    centre : float64[3, n]
        The mean of the directions of its rows.
    radius : float64[n]
        The largest distance of a row from there, along the chord.
    """

    first: NDArray[np.int64]
    centre: NDArray[np.float64]
    radius: NDArray[np.float64]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Rows of every cell, int64[n]."""
        return np.diff(self.first)

    @classmethod
    def of(cls, side: SkyPositions, order: int) -> _Cells:
        cells = side.h29 >> 2 * (MAX_ORDER - order)
        first = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        counts = np.diff(np.append(first, len(cells)))
        centre = np.add.reduceat(side.directions, first, axis=1) / counts
        away = side.directions - np.repeat(centre, counts, axis=1)
        radius = np.sqrt(np.maximum.reduceat((away * away).sum(axis=0), first))
        return cls(np.append(first, len(cells)), centre, radius)


class _Counting:
    """Counts the pairs of two sides, cells by cells."""

    def __init__(
        self,
        left: SkyPositions,
        right: SkyPositions,
        limits: tuple[float, float],
        edges: NDArray[np.float64] | None,
    ) -> None:
        self._sides = _along(left), _along(right)
        self._limits, self._edges = limits, edges
        self.pairs = 0
        self.histogram = None if edges is None else np.zeros(len(edges) - 1, np.int64)
        # No separation is below 0, and none of a pair above the radius: limits there divide none.
        cuts = np.unique(np.concatenate([limits, [] if edges is None else edges]))
        cuts = cuts[(cuts > 0.0) & (cuts <= limits[1])]
        self._cuts = np.array([chord_of(cut * ARCSEC) for cut in cuts.tolist()])
        self._levels: dict[int, tuple[_Cells, _Cells]] = {}
        # Of each order, where the cells begin that the cells of the order before are cut into.
        self._within: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def count(self) -> None:
        """Count them all."""
        radius = self._limits[1] * ARCSEC * (1.0 + 1e-12) + 1e-15
        plain = Grid(*self._sides, radius)
        if plain.candidates <= _CROWD * sum(map(len, self._sides)):
            for pairs in plain.chunks(_AT_ONCE):
                self._add(separation_of(pairs.chord2), None)
            return
        # A row of each cell stands for it in the grid: others of the cell may be twice its radius off, along
        # the chord, and a little more along the sphere.
        most = min(MAX_RADIUS, 5.0 * radius) - radius
        order = 0
        while order < MAX_ORDER and 4.0 * pixel_functions().max_pixrad(1 << order) > most:
            order += 1
        cells = self._at(order)
        here, there = (side.take(at.first[:-1]) for side, at in zip(self._sides, cells, strict=True))
        wide = sum(2.0 * np.arcsin(min(float(side.radius.max()), 1.0)) for side in cells)
        grid = Grid(here, there, min(radius + wide * (1.0 + 1e-9), MAX_RADIUS))
        for pairs in grid.chunks(8 * _AT_ONCE):
            for start in range(0, len(pairs.left), _CELL_PAIRS):
                some = slice(start, start + _CELL_PAIRS)
                self._among_cells(order, pairs.left[some], pairs.right[some])

    def _at(self, order: int) -> tuple[_Cells, _Cells]:
        if order not in self._levels:
            left, right = self._sides
            self._levels[order] = _Cells.of(left, order), _Cells.of(right, order)
        return self._levels[order]

    def _among_cells(self, order: int, left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
        """Count the pairs of rows of pairs of cells."""
        here, there = self._at(order)
        between = here.centre[:, left] - there.centre[:, right]
        between *= between
        apart = np.sqrt(between[0] + between[1] + between[2])
        reach = here.radius[left] + there.radius[right]
        slack = _SLACK + 100.0 * _SLACK * (apart + reach)
        least, most = (
            np.searchsorted(self._cuts, apart - reach - slack),
            np.searchsorted(self._cuts, apart + reach + slack),
        )
        known = least == most
        counts = here.counts[left] * there.counts[right]
        self._add(separation_of(apart[known] ** 2), counts[known])
        # What is farther than the last limit is no pair, and known; so none is cut for that.
        few = ~known & ((counts <= _FEW_PAIRS) | (order == MAX_ORDER))
        self._among_rows(here, there, left[few], right[few])
        many = ~known & ~few
        if many.any():
            self._among_smaller(order + 1, here, there, left[many], right[many])

    def _among_smaller(
        self, order: int, here: _Cells, there: _Cells, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> None:
        """Cut cells, and count among all that come of each pair."""
        if order not in self._within:
            smaller = zip(self._at(order), (here, there), strict=True)
            mine, others = (np.searchsorted(now.first, then.first) for now, then in smaller)
            self._within[order] = mine, others
        for start in range(0, len(left), _CELL_PAIRS // 4):
            some = slice(start, start + _CELL_PAIRS // 4)
            self._among_cells(order, *_crossed(*self._within[order], left[some], right[some]))

    def _among_rows(
        self, here: _Cells, there: _Cells, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> None:
        """Look at all pairs of the rows of cells."""
        one, other = (side.directions for side in self._sides)
        ends = np.cumsum(here.counts[left] * there.counts[right])
        low = 0
        while low < len(ends):
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + _AT_ONCE, side="right")))
            rows, others = _crossed(here.first, there.first, left[low:high], right[low:high])
            between = one[:, rows] - other[:, others]
            between *= between
            # Written out, as in the grid.
            self._add(separation_of(between[0] + between[1] + between[2]), None)
            low = high

    def _add(self, separations: NDArray[np.float64], counts: NDArray[np.int64] | None) -> None:
        """Add pairs, each so many times; those that are not within the limits are none."""
        inside = (separations >= self._limits[0]) & (separations <= self._limits[1])
        self.pairs += int(inside.sum() if counts is None else counts[inside].sum())
        if self.histogram is not None and self._edges is not None:
            weights = None if counts is None else counts[inside]
            self.histogram += np.histogram(separations[inside], self._edges, weights=weights)[0]


def _along(side: SkyPositions) -> SkyPositions:
    """The places of rows along the curve."""
    along = np.argsort(side.h29, kind="stable")
    return SkyPositions(side.ra[along], side.dec[along], side.h29[along])


def _crossed(
    here: NDArray[np.int64], there: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs of what lies in cells, of pairs of cells.

    Parameters
    ----------
    here, there : int64[cells + 1]
        Of the cells of each side, the place of the first thing in it.
    left, right : int64[m]
        The pairs of cells.
    """
    counts, others = here[left + 1] - here[left], there[right + 1] - there[right]
    mine = np.repeat(range_numbers(here[left], counts), np.repeat(others, counts))
    theirs = range_numbers(np.repeat(there[right], counts), np.repeat(others, counts))
    return mine, theirs
