"""The plan: which pixels become leaves, so that none is over the threshold and none is split in vain.

A pixel is a leaf when it is at or below the threshold and its parent is over it, or when it lies at the
lowest order allowed. Leaves are found from the cells up; pixels without rows are none.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hipslake.errors import PlanError
from hipslake.planning.pixel_histogram import Histogram
from hipslake.sphere.array_columns import ArrayColumns
from hipslake.sphere.pixels import MAX_ORDER, Pixel, pixel_functions, starts


@dataclass(frozen=True)
class Leaves(ArrayColumns):
    """The leaves of one column group, sorted along the curve.

    Attributes
    ----------
    order : uint8[n]
    npix, rows, weight : int64[n]
        `weight` is what was held against the threshold: rows, or bytes.
    """

    order: NDArray[np.uint8]
    npix: NDArray[np.int64]
    rows: NDArray[np.int64]
    weight: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.npix)


_NONE = np.empty(0, np.int64)
_NO_LEAVES = Leaves(np.empty(0, np.uint8), _NONE, _NONE, _NONE)


def crowded_cells(
    histogram: Histogram, weights: NDArray[np.int64], threshold: int, *, highest_order: int = MAX_ORDER
) -> NDArray[np.bool_]:
    """Which cells are over the threshold by themselves and may be counted deeper, bool[n]."""
    return (weights > threshold) & (histogram.order < highest_order)


def plan_leaves(
    histogram: Histogram,
    weights: NDArray[np.int64],
    threshold: int,
    *,
    lowest_order: int = 0,
    highest_order: int = MAX_ORDER,
) -> Leaves:
    """Plan the leaves of one column group.

    Parameters
    ----------
    histogram : Histogram
        No cell above `lowest_order`.
    weights : int64[n]
        Per cell, what counts against the threshold: its rows, or its bytes.
    threshold : int
        The largest weight of a leaf.
    lowest_order, highest_order : int
        Orders that a leaf may have.

    Returns
    -------
    Leaves
        Every row lies in exactly one of them.

    Raises
    ------
    PlanError
        If a pixel at `highest_order`, or a cell that was not counted deeper, is over the threshold; the
        message names the heaviest: its position (ICRS degrees), its rows and its weight.
    """
    if lowest_order > highest_order:
        raise ValueError(f"lowest_order {lowest_order} is above highest_order {highest_order}")
    if len(histogram) and int(histogram.order.min()) < lowest_order:
        raise ValueError(f"a cell of order {int(histogram.order.min())} is below lowest_order {lowest_order}")
    if threshold < 1:
        raise PlanError(f"a threshold of {threshold} holds nothing; give a larger one")
    _refuse_heavy_cells(histogram, weights, threshold, highest_order)
    # Base pixel by base pixel: no leaf reaches over two of them, and what is held besides the cells is small.
    parts = []
    for low, high in pairwise(_base_pixel_bounds(histogram)):
        if high > low:
            cells = histogram.select(slice(low, high))
            # One array where rows are the weights, so that it is summed once.
            weighed = cells.rows if weights is histogram.rows else weights[low:high]
            found = _plan_base_pixel(cells, weighed, threshold, lowest_order, highest_order)
            leaves = Leaves.together(found)
            parts.append(leaves.select(np.argsort(starts(leaves.order, leaves.npix))))
    return Leaves.together([_NO_LEAVES, *parts])


def assign_targets(sizes: NDArray[np.int64], target_bytes: int) -> NDArray[np.int32]:
    """Gather neighbouring leaves into reduce tasks of about equal bytes.

    Parameters
    ----------
    sizes : int64[n]
        Bytes of each leaf, along the curve.
    target_bytes : int
        Bytes of a task, about: none has as many as that and the largest leaf together. No leaf is cut.

    Returns
    -------
    int32[n]
        Number of each leaf's task, ascending from 0 without gaps.
    """
    if not len(sizes):
        return np.empty(0, np.int32)
    middle = np.cumsum(sizes) - sizes / 2
    tasks = max(1, int(np.ceil(sizes.sum() / target_bytes)))
    share = np.minimum((middle * tasks / max(int(sizes.sum()), 1)).astype(np.int64), tasks - 1)
    numbers: NDArray[np.int32] = np.cumsum(np.append(0, np.diff(share) > 0)).astype(np.int32)
    return numbers


def bytes_per_task(total: float, most: int, cores: int) -> int:
    """Bytes for one task: `most`, but where there is little, so few that every core has some.

    Parameters
    ----------
    total : float
        Bytes of all tasks together.
    most : int
        Bytes that a task may handle, about.
    cores : int

    Examples
    --------
    >>> bytes_per_task(1e12, 256 << 20, cores=2), bytes_per_task(4000, 256 << 20, cores=2)
    (268435456, 1001)
    """
    return max(1, min(most, int(total / (2 * cores)) + 1))


@dataclass(frozen=True)
class _Nodes(ArrayColumns):
    """Pixels of one order that hold rows, sorted."""

    npix: NDArray[np.integer]
    rows: NDArray[np.int64]
    weight: NDArray[np.int64]

    def added(self, other: _Nodes) -> _Nodes:
        if not len(other.npix):
            return self
        if not len(self.npix):
            return other
        both = _Nodes.together([self, other])
        return both.select(np.argsort(both.npix))

    def parents(self) -> tuple[_Nodes, NDArray[np.int64]]:
        """The pixels one order up, and how many of these nodes each holds."""
        above = self.npix >> 2
        first = np.flatnonzero(np.append(True, above[1:] != above[:-1]))
        counts = np.diff(np.append(first, len(above)))
        full = 4 * len(first) == len(above)

        def sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
            if full:  # a quarter of the time
                return values[0::4] + values[1::4] + values[2::4] + values[3::4]
            return np.add.reduceat(values, first)

        rows = sums(self.rows)
        weight = rows if self.weight is self.rows else sums(self.weight)
        return _Nodes(above[first], rows, weight), counts


def _plan_base_pixel(
    cells: Histogram, weights: NDArray[np.int64], threshold: int, lowest_order: int, highest_order: int
) -> list[Leaves]:
    """The leaves in the cells of one base pixel, order by order."""
    found: list[Leaves] = []
    present = cells.orders
    nodes = _Nodes(cells.npix[:0], cells.rows[:0], cells.rows[:0])
    for order in range(present[-1], lowest_order - 1, -1):
        if order in present:
            own = _own(cells, weights, order, uniform=len(present) == 1)
            nodes = nodes.added(own)
        if order == highest_order:
            _refuse_heavy_pixels(nodes, order, threshold)
        small = nodes.weight <= threshold
        if order == lowest_order:
            found.append(_leaves(nodes, order, small))
            break
        above, counts = nodes.parents()
        if order <= highest_order:
            found.append(_leaves(nodes, order, small & np.repeat(above.weight > threshold, counts)))
        nodes = above
    return found


def _own(cells: Histogram, weights: NDArray[np.int64], order: int, *, uniform: bool) -> _Nodes:
    if uniform:
        return _Nodes(cells.npix, cells.rows, weights)
    mine = cells.order == order
    rows = cells.rows[mine]
    return _Nodes(cells.npix[mine], rows, rows if weights is cells.rows else weights[mine])


def _leaves(nodes: _Nodes, order: int, chosen: NDArray[np.bool_]) -> Leaves:
    at = np.flatnonzero(chosen & (nodes.rows > 0))
    return Leaves(
        np.full(len(at), order, np.uint8), nodes.npix[at].astype(np.int64), nodes.rows[at], nodes.weight[at]
    )


def _base_pixel_bounds(histogram: Histogram) -> list[int]:
    """Where the cells of each of the 12 base pixels begin, and the end."""

    def base_pixel(cell: int) -> int:
        return int(histogram.npix[cell]) >> (2 * int(histogram.order[cell]))

    return [bisect_left(range(len(histogram)), edge, key=base_pixel) for edge in range(13)]


def _refuse_heavy_cells(
    histogram: Histogram, weights: NDArray[np.int64], threshold: int, highest_order: int
) -> None:
    """Refuse cells that are over the threshold: nothing says how to split them."""
    if not len(weights) or weights.max() <= threshold:
        return
    heavy = np.flatnonzero((weights > threshold) & (histogram.order <= highest_order))
    if len(heavy):
        worst = heavy[np.argmax(weights[heavy])]
        pixel = Pixel(int(histogram.order[worst]), int(histogram.npix[worst]))
        held = int(histogram.rows[worst]), int(weights[worst])
        raise _too_heavy(pixel, held, threshold, highest_order, f"{len(heavy)} such pixels")


def _refuse_heavy_pixels(nodes: _Nodes, highest_order: int, threshold: int) -> None:
    """Refuse pixels at the highest order that hold too much together."""
    heavy = np.flatnonzero(nodes.weight > threshold)
    if len(heavy):
        worst = heavy[np.argmax(nodes.weight[heavy])]
        pixel = Pixel(highest_order, int(nodes.npix[worst]))
        such = f"{len(heavy)} such pixels in base pixel {pixel.npix >> (2 * highest_order)}"
        held = int(nodes.rows[worst]), int(nodes.weight[worst])
        raise _too_heavy(pixel, held, threshold, highest_order, such)


def _too_heavy(
    pixel: Pixel, rows_and_weight: tuple[int, int], threshold: int, highest_order: int, such: str
) -> PlanError:
    ra, dec = pixel_functions().pix2ang(1 << pixel.order, pixel.npix, nest=True, lonlat=True)
    if pixel.order == MAX_ORDER:
        mend = "that many rows share one position; raise the threshold above it"
    elif pixel.order == highest_order:
        mend = f"it may not be split past highest_order {highest_order}; raise that or the threshold"
    else:
        mend = "it was not counted deeper; run the histogram step again"
    rows, weight = rows_and_weight
    held = f"{rows} rows" if weight == rows else f"{rows} rows, which weigh {weight}"
    return PlanError(
        f"{pixel} at ra {ra:.6f}, dec {dec:.6f} degrees holds {held}, over the threshold of {threshold} "
        f"({such}): {mend}"
    )
