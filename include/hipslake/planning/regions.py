"""Regions: what an append hands to its reduce tasks, before anybody has read the leaves that stand there.

An append knows the leaves of the catalog and a histogram of the new rows, but not where inside a leaf the old
rows lie. A region is the largest pixel of which it is certain, from that alone, that it need not be divided:
its new rows are not over the threshold, and it holds no leaf finer than itself. So it is a leaf, or a free
pixel, or a part of a leaf that the new rows alone split, or a cell of the histogram that holds finer leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    def leaves_in(self, tree: PixelTree) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places, [first, last), of the leaves that each region touches."""
        return (
            np.searchsorted(tree.stop, self.start, side="right"),
            np.searchsorted(tree.start, self.stop, side="left"),
        )


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
    found: list[_Nodes] = []
    nodes = _Nodes.none()
    present = cells.orders
    if not present:
        return _regions([])
    bottom = min(lowest_order, present[0], int(leaves.order.min()) if len(leaves) else lowest_order)
    for order in range(present[-1], bottom - 1, -1):
        if order in present:
            nodes = nodes.joined(_Nodes.of_cells(cells, weights, order))
        if order == bottom:
            found.append(nodes.select(~nodes.split))
            break
        parents, of_parent = nodes.parents()
        covered, holds_finer = _standing(leaves, parents)
        parents.split |= (parents.weight > threshold) | holds_finer | ((order - 1 < lowest_order) & ~covered)
        if order - 1 >= highest_order:
            parents.split[:] = False
        found.append(nodes.select(~nodes.split & parents.split[of_parent]))
        found.append(_missing_children(parents.select(parents.split & covered), nodes))
        nodes = parents
    return _regions(found)


@dataclass
class _Nodes:
    """Pixels of one order, ascending."""

    order: int
    npix: NDArray[np.int64]
    rows: NDArray[np.int64]
    weight: NDArray[np.int64]
    split: NDArray[np.bool_]

    @classmethod
    def none(cls) -> _Nodes:
        empty = np.empty(0, np.int64)
        return cls(0, empty, empty, empty, np.empty(0, bool))

    @classmethod
    def of_cells(cls, cells: Histogram, weights: NDArray[np.int64], order: int) -> _Nodes:
        mine = np.flatnonzero(cells.order == order)
        npix = cells.npix[mine].astype(np.int64)
        return cls(order, npix, cells.rows[mine], weights[mine], np.zeros(len(mine), bool))

    def select(self, chosen: NDArray[np.bool_]) -> _Nodes:
        return _Nodes(
            self.order, self.npix[chosen], self.rows[chosen], self.weight[chosen], self.split[chosen]
        )

    def joined(self, other: _Nodes) -> _Nodes:
        if not len(self.npix):
            return other
        npix = np.concatenate([self.npix, other.npix])
        along = np.argsort(npix)
        return _Nodes(
            other.order,
            npix[along],
            np.concatenate([self.rows, other.rows])[along],
            np.concatenate([self.weight, other.weight])[along],
            np.concatenate([self.split, other.split])[along],
        )

    def parents(self) -> tuple[_Nodes, NDArray[np.int64]]:
        """The pixels one order up, split where a child is; and the place of every node's parent."""
        above = self.npix >> 2
        first = np.flatnonzero(np.append(True, above[1:] != above[:-1])) if len(above) else above
        of_parent = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(above))))

        def summed(values: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.add.reduceat(values, first) if len(first) else values

        split = summed(self.split.astype(np.int64)) > 0
        return (
            _Nodes(self.order - 1, above[first], summed(self.rows), summed(self.weight), split),
            of_parent,
        )


def _standing(leaves: PixelTree, nodes: _Nodes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which nodes are a leaf or lie in one, and which hold leaves finer than themselves."""
    if not len(leaves):
        none = np.zeros(len(nodes.npix), bool)
        return none, none.copy()
    start, stop = starts(nodes.order, nodes.npix), stops(nodes.order, nodes.npix)
    at = np.searchsorted(leaves.stop, start, side="right")  # the first leaf that ends behind the start
    inside = np.minimum(at, len(leaves) - 1)
    meets = (at < len(leaves)) & (leaves.start[inside] < stop)
    coarser = leaves.order[inside] <= nodes.order
    return meets & coarser, meets & ~coarser


def _missing_children(parents: _Nodes, children: _Nodes) -> _Nodes:
    """The children of some parents that are not among the nodes."""
    npix = (parents.npix[:, None] * 4 + np.arange(4)).ravel()
    npix = npix[~np.isin(npix, children.npix, assume_unique=True)]
    nothing = np.zeros(len(npix), np.int64)
    return _Nodes(children.order, npix, nothing, nothing, np.zeros(len(npix), bool))


def _regions(found: list[_Nodes]) -> Regions:
    order = np.concatenate([np.full(len(nodes.npix), nodes.order, np.int64) for nodes in found] or [_NO])
    npix = np.concatenate([nodes.npix for nodes in found] or [_NO])
    rows = np.concatenate([nodes.rows for nodes in found] or [_NO])
    start = starts(order, npix)
    along = np.argsort(start)
    order, npix = order[along], npix[along]
    return Regions(order, npix, start[along], stops(order, npix), rows[along])


_NO = np.empty(0, np.int64)
