"""Sets of order-29 pixels: sorted disjoint intervals along the NESTED curve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import index

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.sphere.pixels import MAX_ORDER, WHOLE_SKY, starts, stops

PixelLike = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Intervals:
    """Sorted disjoint intervals [start, stop) of order-29 pixels, int64[n] each."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    @classmethod
    def of(cls, pixels: Iterable[PixelLike]) -> Intervals:
        """The union of pixels, (order, npix) each; they may overlap.

        Raises
        ------
        ValueError
            A pixel does not exist, or is none; the message names it.
        """
        given = [_checked(pixel) for pixel in pixels]
        order = np.array([pixel[0] for pixel in given], np.int64)
        npix = np.array([pixel[1] for pixel in given], np.int64)
        known = (order >= 0) & (order <= MAX_ORDER) & (npix >= 0)
        known &= npix < 12 << (2 * np.clip(order, 0, MAX_ORDER))
        if not known.all():
            wrong = given[int(np.argmin(known))]
            raise ValueError(f"there is no pixel of order {wrong[0]} with number {wrong[1]}")
        return cls.union(starts(order, npix), stops(order, npix))

    @classmethod
    def union(cls, start: ArrayLike, stop: ArrayLike) -> Intervals:
        """The union of intervals [start, stop) in any order, int64[m] each; those that meet become one."""
        begin, end = np.asarray(start, np.int64), np.asarray(stop, np.int64)
        along = np.argsort(begin, kind="stable")
        begin, end = begin[along], end[along]
        if not len(begin):
            return cls(begin, end)
        reach = np.maximum.accumulate(end)
        first = np.flatnonzero(np.concatenate([[True], begin[1:] > reach[:-1]]))
        return cls(begin[first], np.maximum.reduceat(end, first))

    @classmethod
    def together(cls, several: Iterable[Intervals]) -> Intervals:
        """The union of sets of intervals; without any, the empty set."""
        sets = [cls(np.empty(0, np.int64), np.empty(0, np.int64)), *several]
        return cls.union(*(np.concatenate([getattr(one, end) for one in sets]) for end in ("start", "stop")))

    @classmethod
    def whole_sky(cls) -> Intervals:
        """All twelve base pixels, as one interval."""
        start, stop = WHOLE_SKY
        return cls(np.array([start], np.int64), np.array([stop], np.int64))

    def __len__(self) -> int:
        return len(self.start)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return np.array_equal(self.start, other.start) and np.array_equal(self.stop, other.stop)

    __hash__ = None  # type: ignore[assignment]

    @property
    def sky_fraction(self) -> float:
        """The part of the whole sky that lies in these intervals, from 0 to 1."""
        return float((self.stop - self.start).sum() / WHOLE_SKY[1])

    def touch(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the given intervals hold anything of these, bool[m]."""
        ended = np.searchsorted(self.stop, start, side="right")
        return np.asarray(ended < np.searchsorted(self.start, stop))

    def within(self, start: int, stop: int) -> Intervals:
        """The part of these intervals inside [start, stop)."""
        low, high = np.searchsorted(self.stop, start, side="right"), np.searchsorted(self.start, stop)
        return Intervals(np.maximum(self.start[low:high], start), np.minimum(self.stop[low:high], stop))

    def hold(self, h29: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which order-29 pixels lie in these intervals, bool[m]."""
        ended = np.searchsorted(self.stop, h29, side="right")
        begun = np.searchsorted(self.start, h29, side="right")
        inside: NDArray[np.bool_] = begun > ended
        return inside

    def common(self, other: Intervals) -> Intervals:
        """The intersection with other intervals."""
        # Where an edge of either lies, what is in both begins or ends: as many are open as sets hold it.
        edges = np.concatenate([self.start, other.start, self.stop, other.stop])
        step = np.repeat([1, -1], len(self) + len(other))
        along = np.lexsort((step, edges))  # at one place, ends come before starts
        edges, open_sets = edges[along], np.cumsum(step[along])
        first = np.flatnonzero(open_sets == 2)
        return Intervals.union(edges[first], edges[first + 1])

    def in_pixels_of(self, order: int) -> Intervals:
        """All pixels of an order that hold anything of these.

        Examples
        --------
        >>> Intervals.of([(4, 5), (3, 7)]).in_pixels_of(3) == Intervals.of([(3, 1), (3, 7)])
        True
        """
        shift = 2 * (MAX_ORDER - order)
        return Intervals.union((self.start >> shift) << shift, -(-self.stop >> shift) << shift)

    def at_most(self, number: int) -> Intervals:
        """At most `number` intervals that cover these: the narrowest gaps are closed."""
        if len(self) <= number:
            return self
        gaps = self.start[1:] - self.stop[:-1]
        kept = np.sort(np.argsort(gaps, kind="stable")[len(gaps) - number + 1 :])
        return Intervals(self.start[np.append(0, kept + 1)], self.stop[np.append(kept, len(self) - 1)])

    def pixel_ranges(self) -> dict[int, list[tuple[int, int]]]:
        """As few pixels as make up these intervals: per order, runs of pixel numbers, [first, last].

        Examples
        --------
        >>> Intervals.of([(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]).pixel_ranges()
        {0: [(0, 0)], 1: [(4, 5)]}
        """
        return {
            order: list(zip(first.tolist(), (last - 1).tolist(), strict=True))
            for order, first, last in self.pixel_runs()
        }

    def pixel_runs(self) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """As few pixels as make up these intervals: order by order, runs of pixel numbers, [first, last).

        Both are int64[k], ascending; orders without a run are left out.
        """
        start, stop = self.start, self.stop
        for order in range(MAX_ORDER + 1):
            shift = 2 * (MAX_ORDER - order)
            first, last = -(-start >> shift), stop >> shift
            whole = first < last
            if whole.any():
                yield order, np.sort(first[whole]), np.sort(last[whole])
            middle = np.where(whole, first << shift, stop)
            rest = np.where(whole, last << shift, stop)
            start, stop = np.concatenate([start, rest]), np.concatenate([middle, stop])
            left = start < stop
            start, stop = start[left], stop[left]


def range_numbers(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """All numbers of some ranges, given by their first number and their length, one range after another.

    Examples
    --------
    >>> range_numbers(np.array([7, 2]), np.array([3, 2])).tolist()
    [7, 8, 9, 2, 3]
    """
    return np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)


def _checked(pixel: PixelLike) -> PixelLike:
    """An order and a number, both whole."""
    try:
        order, npix = pixel
        return index(order), index(npix)
    except (TypeError, ValueError):
        raise ValueError(f"a pixel is (order, number), two whole numbers, not {pixel!r}") from None
