"""Pixel trees: disjoint pixels of any orders, as sorted intervals of order-29 pixels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.sphere.intervals import Intervals, range_numbers
from hipslake.sphere.pixels import MAX_ORDER, WHOLE_SKY, Pixel, starts, stops


class PixelTree:
    """Leaf pixels along the NESTED curve.

    Every operation is a merge over the sorted intervals.

    Parameters
    ----------
    order, npix : int[n]
        The pixels, in any order.

    Raises
    ------
    ValueError
        A pixel does not exist, or two overlap; the message names them.

    Examples
    --------
    >>> tree = PixelTree([1, 0], [0, 3])
    >>> [str(pixel) for pixel in tree]
    ['Norder=1, Npix=0', 'Norder=0, Npix=3']
    >>> tree.find([0, 1 << 57, 3 << 58])
    array([ 0, -1,  1])
    """

    def __init__(self, order: ArrayLike, npix: ArrayLike) -> None:
        orders, pixels = np.asarray(order, np.int64), np.asarray(npix, np.int64)
        _check_exist(orders, pixels)
        along = np.argsort(starts(orders, pixels), kind="stable")
        self.order: NDArray[np.int64] = orders[along]
        self.npix: NDArray[np.int64] = pixels[along]
        self.start: NDArray[np.int64] = starts(self.order, self.npix)
        self.stop: NDArray[np.int64] = stops(self.order, self.npix)
        overlapping = np.flatnonzero(self.start[1:] < self.stop[:-1])
        if len(overlapping):
            at = int(overlapping[0])
            raise ValueError(
                f"pixels overlap: {self[at]} and {self[at + 1]} ({len(overlapping)} such neighbours)"
            )

    def __len__(self) -> int:
        return len(self.npix)

    def __getitem__(self, at: int) -> Pixel:
        return Pixel(int(self.order[at]), int(self.npix[at]))

    def __iter__(self) -> Iterator[Pixel]:
        return map(Pixel, self.order.tolist(), self.npix.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PixelTree):
            return NotImplemented
        return np.array_equal(self.order, other.order) and np.array_equal(self.npix, other.npix)

    __hash__ = None  # type: ignore[assignment]

    def complement(self) -> PixelTree:
        """The coarsest pixels that cover the sky where the tree has none.

        Examples
        --------
        >>> [str(pixel) for pixel in PixelTree([1, 0], [0, 3]).complement()][:4]
        ['Norder=1, Npix=1', 'Norder=1, Npix=2', 'Norder=1, Npix=3', 'Norder=0, Npix=1']
        """
        begin, end = np.append(0, self.stop), np.append(self.start, WHOLE_SKY[1])
        gap = begin < end
        orders, pixels = [_NO], [_NO]
        for order, first, last in Intervals(begin[gap], end[gap]).pixel_runs():
            pixels.append(range_numbers(first, last - first))
            orders.append(np.full(len(pixels[-1]), order, np.int64))
        return PixelTree(np.concatenate(orders), np.concatenate(pixels))

    def tiling(self) -> PixelTree:
        """The leaves and, between them, the coarsest pixels: together the whole sky, each place once."""
        rest = self.complement()
        return PixelTree(np.concatenate([self.order, rest.order]), np.concatenate([self.npix, rest.npix]))

    def places_of(self, order: ArrayLike, npix: ArrayLike) -> NDArray[np.int64]:
        """Where pixels are leaves themselves, their places in the tree, int64[m]; -1 for all others.

        Examples
        --------
        >>> PixelTree([1, 0], [0, 3]).places_of([0, 1, 0], [0, 0, 3])
        array([-1,  0,  1])
        """
        at = self.find(starts(order, npix))
        if not len(self):
            return at
        return np.where((at >= 0) & (self.order[at] == order) & (self.npix[at] == npix), at, -1)

    def select(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> PixelTree:
        """Some of the leaves: a mask, or places."""
        return PixelTree(self.order[chosen], self.npix[chosen])

    def find(self, h29: ArrayLike) -> NDArray[np.int64]:
        """The leaf that holds each order-29 pixel.

        Parameters
        ----------
        h29 : int64[m]

        Returns
        -------
        int64[m]
            Places in the tree; -1 where no leaf is.
        """
        index = np.asarray(h29, np.int64)
        if not len(self):
            return np.full(index.shape, -1, np.int64)
        at = np.searchsorted(self.start, index, side="right") - 1
        return np.where((at >= 0) & (index < self.stop[at]), at, -1)


_NO = np.empty(0, np.int64)


def _check_exist(order: NDArray[np.int64], npix: NDArray[np.int64]) -> None:
    if order.shape != npix.shape or order.ndim != 1:
        raise ValueError(f"orders and pixels are two lists of one length, not {order.shape} and {npix.shape}")
    wrong = (order < 0) | (order > MAX_ORDER)
    wrong |= (npix < 0) | (npix >= (12 << (2 * np.clip(order, 0, MAX_ORDER))))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"there is no pixel of order {order[at]} with number {npix[at]}")
