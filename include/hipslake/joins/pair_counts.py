"""How many pairs of two sides are within a radius, and how far apart they are, without a list of them.

Where a radius holds few rows, they are found on the grid of the match. Else, rows are put into zones of
declination (`hipslake.joins.zones`), the thinner the more pairs a row has. What ranges of a zone say is safe
from rounding, and pairs that they leave open are held against the limits as the match itself does it: so the
numbers are those of the match. Rows of one and the same place, such as those of a light curve, are looked at
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.pair_grid import Grid, SkyPositions, chord_of
from hipslake.joins.sky_separations import ARCSEC, separation_of
from hipslake.joins.zones import LEAST_HEIGHT, Ranges, Zones
from hipslake.sphere.intervals import range_numbers

_AT_ONCE = 1 << 16  # pairs of rows: what is worked out of them stays in the caches of a core
_SAMPLED = 2048, 1 << 16  # rows of each side that an estimate is made of
_IN_CIRCLE = 0.6  # of the rows in zones as high as a radius, about
_THICKEST, _THINNEST = 1.0, 1.0 / 64.0  # zones, of the radius
_ZONE_PAIRS = 16.0  # pairs that take as long to look at as a zone to search
_LOOK_NS, _SEARCH_NS, _ROOT_NS = 55.0, 1000.0, 130.0
"""What a row costs: for each pair that is looked at; to count those below an edge; and for that again, times
the square root of the number of pairs."""
_FEW_PAIRS, _MOST_CANDIDATES = (
    0.25,
    8.0,
)  # of a row of both sides: so far, the cells of a grid are faster
_MOST_PLACES = 0.75  # of rows: where more differ, that some do not is no gain
_ROUNDED = 1e-12  # of the square of a chord: more than rounding makes of a separation

_Looked = tuple[NDArray[np.float64], NDArray[np.int64] | None]


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
    limits = min_radius_arcsec, radius_arcsec
    if not len(left) or not len(right):
        return PairCounts(0, None if edges is None else np.zeros(len(edges) - 1, np.int64))
    counting = _Counting(left, right)
    each = counting.pairs_of_a_row(limits[1] * ARCSEC)
    if (few := counting.few(limits, edges, each)) is not None:
        return few
    if edges is None:
        return PairCounts(counting.up_to(limits[1]) - counting.below(limits[0]), None)
    if _LOOK_NS * each <= (_SEARCH_NS + _ROOT_NS * np.sqrt(each)) * len(edges):
        return counting.listed(limits, edges)
    return counting.binned(limits, edges)


class _Counting:
    """Counts the pairs of two sides."""

    def __init__(self, left: SkyPositions, right: SkyPositions) -> None:
        self._probes, self._base = sorted(map(_Places.of, (left, right)), key=lambda side: len(side.at))
        self._by_height: dict[int, _Laid] = {}

    def up_to(self, limit: float) -> int:
        """Count the pairs that are so many arcseconds apart at most."""
        return self._within(limit, closed=True)

    def below(self, limit: float) -> int:
        """Count the pairs that are less than so many arcseconds apart."""
        return self._within(limit, closed=False) if limit > 0.0 else 0

    def binned(self, limits: tuple[float, float], edges: NDArray[np.float64]) -> PairCounts:
        """Count the pairs between two limits, and those below each edge: few of them are looked at."""
        too_near, near = self.below(limits[0]), self.up_to(limits[1])

        def counted(edge: float, *, closed: bool) -> int:
            if edge > limits[1] or (closed and edge == limits[1]):
                return near
            if edge < limits[0] or (not closed and edge == limits[0]):
                return too_near
            return self._within(edge, closed=closed)

        *others, last = edges.tolist()
        counts = [counted(edge, closed=False) for edge in others]
        counts.append(counted(last, closed=True))  # the last bin holds its upper edge, too
        return PairCounts(near - too_near, np.diff(np.array(counts, np.int64)).astype(np.int64))

    def listed(self, limits: tuple[float, float], edges: NDArray[np.float64]) -> PairCounts:
        """Look at the separation of each pair."""
        radius = limits[1] * ARCSEC
        near = self._laid(radius).near(radius, sure=False)
        return _counts_of((some for found in near for some in found.looked_at()), limits, edges)

    def few(
        self, limits: tuple[float, float], edges: NDArray[np.float64] | None, each: float
    ) -> PairCounts | None:
        """Look at the pairs that lie in cells as wide as the radius; None: there are too many.

        `each` is about how many a row of the smaller side has.
        """
        probes, base = self._probes, self._base
        places = len(probes.at) + len(base.at)
        if each * len(probes.at) > _FEW_PAIRS * places:
            return None
        # Nothing within the limit is beyond that, however it was rounded.
        grid = Grid(probes.at, base.at, limits[1] * ARCSEC * (1.0 + 1e-12) + 1e-15)
        if grid.candidates > _MOST_CANDIDATES * places:
            return None
        chunks = grid.chunks(_AT_ONCE)
        pairs = (
            (some.chord2, _product(probes.rows_at(some.left), base.rows_at(some.right))) for some in chunks
        )
        return _counts_of(pairs, limits, edges)

    def pairs_of_a_row(self, radius: float) -> float:
        """About how many places are within a radius, in radians, of one of the smaller side."""
        sides = self._probes.at, self._base.at
        probes, base = (
            side.take(slice(None, None, -(-len(side) // most)))
            for side, most in zip(sides, _SAMPLED, strict=True)
        )
        found = Zones(base, radius).near(probes, radius, sure=False)
        candidates = sum(int((near.stop - near.first).sum()) for _, near in found)
        return _IN_CIRCLE * candidates / len(probes) * len(sides[1]) / len(base)

    def _within(self, limit: float, *, closed: bool) -> int:
        """Count the pairs up to a separation in arcseconds, or below it."""
        radius = limit * ARCSEC
        lowest, highest = (chord_of(radius) ** 2 * (1.0 + by) for by in (-_ROUNDED, _ROUNDED))
        pairs = 0
        for found in self._laid(radius).near(radius):
            pairs += found.surely()
            for chord2, rows in found.looked_at():
                pairs += _counted(chord2 < lowest, rows)
                unsure = np.flatnonzero((chord2 >= lowest) & (chord2 <= highest))
                at_limit = separation_of(chord2[unsure])
                within = at_limit <= limit if closed else at_limit < limit
                pairs += _counted(within, None if rows is None else rows[unsure])
        return pairs

    def _laid(self, radius: float) -> _Laid:
        """Both sides in zones for a radius in radians."""
        share = np.sqrt(_ZONE_PAIRS / max(self.pairs_of_a_row(radius), 1.0))
        height = radius * min(max(share, _THINNEST), _THICKEST)
        # A power of two: radii that are alike have the same zones.
        power = int(np.floor(np.log2(max(height, LEAST_HEIGHT))))
        if power not in self._by_height:
            zones = Zones(self._base.at, 2.0**power)
            probes = self._probes.take(zones.order_of(self._probes.at))
            self._by_height[power] = _Laid(
                zones, _Places(zones.side, self._base.rows_at(zones.order)), probes
            )
        return self._by_height[power]


class _Places(NamedTuple):
    """Where rows are.

    Attributes
    ----------
    at : SkyPositions
        Of n places.
    rows : int64[n] or None
        How many rows each place has; None: one.
    """

    at: SkyPositions
    rows: NDArray[np.int64] | None

    @classmethod
    def of(cls, side: SkyPositions) -> _Places:
        """The places of a side, where they are far fewer than its rows; else each row's."""
        if (side.h29[1:] < side.h29[:-1]).any():
            side = side.take(np.lexsort((side.dec, side.ra)))
        differs = (side.ra[1:] != side.ra[:-1]) | (side.dec[1:] != side.dec[:-1])
        first = np.flatnonzero(np.append(True, differs))
        if len(first) > _MOST_PLACES * len(side):
            return cls(side, None)
        return cls(side.take(first), np.diff(np.append(first, len(side))))

    def rows_at(self, places: NDArray[np.int64] | slice) -> NDArray[np.int64] | None:
        """How many rows some of the places have."""
        return None if self.rows is None else self.rows[places]

    def take(self, places: NDArray[np.int64] | slice) -> _Places:
        """Some of the places."""
        return _Places(self.at.take(places), self.rows_at(places))


class _Laid:
    """The larger side in zones, and the smaller one in their order."""

    def __init__(self, zones: Zones, base: _Places, probes: _Places) -> None:
        self._zones, self._base, self._probes = zones, base, probes
        # Of each place, the rows of those before it.
        self._before = None if base.rows is None else np.append(0, np.cumsum(base.rows))

    def near(self, radius: float, *, sure: bool = True) -> Iterator[_Near]:
        """The pairs of places within a radius, some at a time; parameters as of `Zones.near`."""
        done = 0
        for some, ranges in self._zones.near(self._probes.at, radius, sure=sure):
            rows = self._probes.rows_at(slice(done, done + len(some)))
            yield _Near(self._base, self._before, _Places(some, rows), ranges)
            done += len(some)


class _Near(NamedTuple):
    """Pairs of places that may be near: a row of either place is of each pair."""

    base: _Places
    before: NDArray[np.int64] | None
    probes: _Places
    ranges: Ranges

    def surely(self) -> int:
        """How many pairs of rows are surely near."""
        first, stop = self.ranges.sure_first, self.ranges.sure_stop
        rows = stop - first if self.before is None else self.before[stop] - self.before[first]
        if self.probes.rows is not None:
            rows = rows * self.probes.rows[self.ranges.probe]
        return int(rows.sum())

    def looked_at(self) -> Iterator[_Looked]:
        """The squares of the chords of the others, and the pairs of rows of each; some at a time.

        None instead of the pairs of rows: one each.
        """
        near = self.ranges
        first = np.concatenate([near.first, near.sure_stop])
        counts = np.concatenate([near.sure_first, near.stop]) - first
        held = np.flatnonzero(counts)
        first, counts, probe = first[held], counts[held], np.concatenate([near.probe, near.probe])[held]
        ends = np.cumsum(counts)
        low = 0
        while low < len(ends):
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + _AT_ONCE, side="right")))
            here = range_numbers(first[low:high], counts[low:high])
            there = np.repeat(probe[low:high], counts[low:high])
            between = self.base.at.directions[:, here]
            between -= self.probes.at.directions[:, there]
            between *= between
            # Written out: what sums along an axis rounds differently for different shapes.
            rows = _product(self.base.rows_at(here), self.probes.rows_at(there))
            yield between[0] + between[1] + between[2], rows
            low = high


def _product(mine: NDArray[np.int64] | None, others: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """The pairs of rows of pairs of places; None: one each."""
    if mine is None or others is None:
        return others if mine is None else mine
    return mine * others


def _counts_of(
    pairs: Iterator[_Looked], limits: tuple[float, float], edges: NDArray[np.float64] | None
) -> PairCounts:
    """The pairs within limits, of the squares of chords, and the pairs of rows of each."""
    total, bins = 0, 0 if edges is None else len(edges) - 1
    histogram = np.zeros(bins, np.int64)
    for chord2, rows in pairs:
        separations = separation_of(chord2)
        within = (separations >= limits[0]) & (separations <= limits[1])
        total += _counted(within, rows)
        if edges is None:
            continue
        separations = separations[within]
        after = np.searchsorted(edges, separations, side="right")  # edges that are not above it
        after[separations == edges[-1]] = bins
        if rows is None:
            histogram += np.bincount(after, minlength=bins + 2)[1 : bins + 1]
        else:
            counts = np.zeros(bins + 2, np.int64)
            np.add.at(counts, after, rows[within])
            histogram += counts[1 : bins + 1]
    return PairCounts(total, None if edges is None else histogram)


def _counted(near: NDArray[np.bool_], rows: NDArray[np.int64] | None) -> int:
    """The pairs of rows of the pairs of places that are near."""
    return int(np.count_nonzero(near)) if rows is None else int(rows[near].sum())
