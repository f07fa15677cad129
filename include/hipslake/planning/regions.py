"""Regions: what an append hands to its reduce tasks, before anybody has read the leaves that stand there.

An append knows the leaves of the catalog and a histogram of the new rows, but not where inside a leaf the old
rows lie. A region is the largest pixel of which it is certain, from that alone, that it need not be divided:
its new rows are not over the threshold, and it holds no leaf finer than itself. So it is a leaf, or a free
pixel, or a part of a leaf that the new rows alone split, or a cell of the histogram that holds finer leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.planning.pixel_histogram import Histogram
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import starts, stops


@dataclass(frozen=True)
class Regions:
    """Disjoint pixels, sorted along the curve.

    Attributes
    ----------
    order, npix : int64[n]
    start, stop : int64[n]
        The order-29 pixels of each, [start, stop).
    rows : int64[n]
        New rows in each; 0 where only old rows lie.
    """

    order: NDArray[np.int64]
    npix: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.npix)


def plan_regions(
    cells: Histogram,
    weights: NDArray[np.int64],
    threshold: int,
    leaves: PixelTree,
    *,
    lowest_order: int = 0,
    highest_order: int = 29,
) -> Regions:
    """Divide the sky that an append touches.

    Parameters
    ----------
    cells : Histogram
        The new rows, per pixel; cells with no row are touched too (their old rows are to be taken out).
    weights : int64[n]
        Per cell, what counts against the threshold.
    threshold : int
        The largest weight of a leaf.
    leaves : PixelTree
        The leaves of the version that is appended to.
    lowest_order, highest_order : int
        Orders that a new leaf may have.

    Returns
    -------
    Regions
        Every cell lies in exactly one of them. A leaf is covered by regions wholly or not at all.
    """
    found: list[tuple[int, _Nodes]] = []
    nodes = _NO_NODES
    present = cells.orders
    if not present:
        return _regions([])
    bottom = min(lowest_order, present[0], int(leaves.order.min()) if len(leaves) else lowest_order)
    for order in range(present[-1], bottom - 1, -1):
        if order in present:
            nodes = nodes.joined(_Nodes.of_cells(cells, weights, order))
        if order == bottom:
            found.append((order, nodes.select(~nodes.split)))
            break
        parents, of_parent = nodes.parents()
        covered, holds_finer = _standing(leaves, parents.npix, order - 1)
        crowded = (parents.weight > threshold) | holds_finer | ((order - 1 < lowest_order) & ~covered)
        parents = parents._replace(split=(parents.split | crowded) & (order - 1 < highest_order))
        found.append((order, nodes.select(~nodes.split & parents.split[of_parent])))
        found.append((order, _missing_children(parents.npix[parents.split & covered], nodes.npix)))
        nodes = parents
    return _regions(found)


class _Nodes(NamedTuple):
    """Pixels of one order, ascending."""

    npix: NDArray[np.int64]
    rows: NDArray[np.int64]
    weight: NDArray[np.int64]
    split: NDArray[np.bool_]

    @classmethod
    def of_cells(cls, cells: Histogram, weights: NDArray[np.int64], order: int) -> _Nodes:
        mine = np.flatnonzero(cells.order == order)
        npix = cells.npix[mine].astype(np.int64)
        return cls(npix, cells.rows[mine], weights[mine], np.zeros(len(mine), bool))

    def select(self, chosen: NDArray[np.bool_]) -> _Nodes:
        return _Nodes._make(column[chosen] for column in self)

    def joined(self, other: _Nodes) -> _Nodes:
        along = np.argsort(np.concatenate([self.npix, other.npix]))
        return _Nodes._make(np.concatenate(both)[along] for both in zip(self, other, strict=True))

    def parents(self) -> tuple[_Nodes, NDArray[np.int64]]:
        """The pixels one order up, split where a child is; and the place of every node's parent."""
        above = self.npix >> 2
        first = np.flatnonzero(np.append(True, above[1:] != above[:-1])) if len(above) else above
        of_parent = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(above))))

        def summed(values: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.add.reduceat(values, first) if len(first) else values

        split = summed(self.split.astype(np.int64)) > 0
        return _Nodes(above[first], summed(self.rows), summed(self.weight), split), of_parent


def _standing(
    leaves: PixelTree, npix: NDArray[np.int64], order: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pixels are a leaf or lie in one, and which hold leaves finer than themselves."""
    if not len(leaves):
        none = np.zeros(len(npix), bool)
        return none, none
    start, stop = starts(order, npix), stops(order, npix)
    at = np.searchsorted(leaves.stop, start, side="right")  # the first leaf that ends behind the start
    inside = np.minimum(at, len(leaves) - 1)
    meets = (at < len(leaves)) & (leaves.start[inside] < stop)
    coarser = leaves.order[inside] <= order
    return meets & coarser, meets & ~coarser


def _missing_children(parents: NDArray[np.int64], children: NDArray[np.int64]) -> _Nodes:
    """The children of some pixels that are not among others."""
    npix = (parents[:, None] * 4 + np.arange(4)).ravel()
    npix = npix[~np.isin(npix, children, assume_unique=True)]
    nothing = np.zeros(len(npix), np.int64)
    return _Nodes(npix, nothing, nothing, np.zeros(len(npix), bool))


def _regions(found: list[tuple[int, _Nodes]]) -> Regions:
    order = np.concatenate([_NO, *(np.full(len(nodes.npix), order, np.int64) for order, nodes in found)])
    npix = np.concatenate([_NO, *(nodes.npix for _, nodes in found)])
    rows = np.concatenate([_NO, *(nodes.rows for _, nodes in found)])
    along = np.argsort(starts(order, npix))
    order, npix = order[along], npix[along]
    return Regions(order, npix, starts(order, npix), stops(order, npix), rows[along])


_NO = np.empty(0, np.int64)
_NO_NODES = _Nodes(_NO, _NO, _NO, np.empty(0, bool))
