"""Pixel trees of two catalogs side by side: which leaves meet, before any of them is opened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipslake.sphere.intervals import Intervals, range_numbers
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import MAX_ORDER, pixel_functions
from hipslake.sphere.vectors import pixel_centers

_COARSER_BY = 3  # a stretch of the curve is covered by pixels this many orders below its length
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Homes:
    """The pixels that rows of the right side are filed under: disjoint, along the curve.

    Attributes
    ----------
    start, stop : int64[n]
        Order-29 pixels, [start, stop).
    leaf : int64[n]
        Place of the leaf in the right tree; -1 where the right side has no rows, only neighbours.
    margin : int64[n]
        Place in the list of margin pixels; -1 where nothing lies near the border.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    leaf: NDArray[np.int64]
    margin: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    def overlapping(self, start: int, stop: int) -> range:
        """The homes that share order-29 pixels with [start, stop)."""
        first = np.searchsorted(self.stop, start, side="right")
        last = np.searchsorted(self.start, stop, side="left")
        return range(int(first), int(last))


def homes(leaves: PixelTree, margins: PixelTree) -> Homes:
    """Put the leaves of a catalog and the pixels of its margin side by side.

    Parameters
    ----------
    leaves : PixelTree
    margins : PixelTree
        Each is a leaf, or lies where no leaf is.

    Raises
    ------
    ValueError
        A margin pixel overlaps a leaf without being it.
    """
    at = leaves.find(margins.start)
    beside = at < 0
    met = Intervals(leaves.start, leaves.stop).touch(margins.start, margins.stop)
    same = ~beside & (leaves.order[at] == margins.order) if len(leaves) else np.zeros(len(margins), bool)
    wrong = np.flatnonzero(met & ~same)
    if len(wrong):
        raise ValueError(f"margin pixel {margins[int(wrong[0])]} overlaps leaves without being one")
    margin = np.full(len(leaves), -1)
    margin[at[same]] = np.flatnonzero(same)
    start = np.concatenate([leaves.start, margins.start[beside]])
    along = np.argsort(start)
    return Homes(
        start[along],
        np.concatenate([leaves.stop, margins.stop[beside]])[along],
        np.concatenate([np.arange(len(leaves)), np.full(int(beside.sum()), -1)])[along],
        np.concatenate([margin, np.flatnonzero(beside)])[along],
    )


def overlaps(
    a: tuple[NDArray[np.int64], NDArray[np.int64]], b: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of intervals that overlap.

    Parameters
    ----------
    a, b : (int64[n], int64[n])
        Starts and stops of disjoint intervals, ascending.

    Returns
    -------
    in_a, in_b : int64[m]
        Places of the pairs, ascending.

    Examples
    --------
    >>> a = np.array([0, 10]), np.array([10, 20])
    >>> b = np.array([5, 18]), np.array([12, 30])
    >>> [side.tolist() for side in overlaps(a, b)]
    [[0, 1, 1], [0, 0, 1]]
    """
    first = np.searchsorted(b[1], a[0], side="right")
    counts = np.maximum(np.searchsorted(b[0], a[1], side="left") - first, 0)
    return np.repeat(np.arange(len(counts)), counts), range_numbers(first, counts)


def near(
    start: NDArray[np.int64], stop: NDArray[np.int64], area: tuple[int, int], radius: float
) -> NDArray[np.bool_]:
    """Which stretches of the curve may hold positions within a distance of an area.

    Parameters
    ----------
    start, stop : int64[n]
        Order-29 pixels, [start, stop).
    area : (int, int)
        Order-29 pixels, [start, stop).
    radius : float
        Radians.

    Returns
    -------
    bool[n]
        Never False where there is such a position.
    """
    here = _Discs.over(*area)
    found = np.zeros(len(start), bool)
    for at, (low, high) in enumerate(zip(start.tolist(), stop.tolist(), strict=True)):
        there = _Discs.over(low, high)
        angle = np.arccos(np.clip(there.centre @ here.centre.T, -1.0, 1.0))
        reach = there.radius[:, None] + here.radius[None, :] + radius + 1e-7  # arccos of a cosine near 1
        found[at] = bool((angle <= reach).any())
    return found


@dataclass(frozen=True)
class _Discs:
    """Discs that together cover a stretch of the curve.

    Attributes
    ----------
    centre : float64[n, 3]
    radius : float64[n]
        Radians.
    """

    centre: NDArray[np.float64]
    radius: NDArray[np.float64]

    @classmethod
    def over(cls, start: int, stop: int) -> _Discs:
        """Cover [start, stop), or a little more, by few discs."""
        length = max(stop - start, 1)
        order = min(MAX_ORDER, max(0, (2 * MAX_ORDER + 2 - length.bit_length()) // 2) + _COARSER_BY)
        shift = 2 * (MAX_ORDER - order)
        pixels = np.arange(start >> shift, ((max(stop, start + 1) - 1) >> shift) + 1)
        radius = pixel_functions().max_pixrad(1 << order)
        return cls(pixel_centers(order, pixels), np.full(len(pixels), radius))
