"""Leaves and their files: what stands in a stretch of the sky."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.partitions import curve_sorted
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import starts

_NO = np.empty(0, np.int64)


@dataclass(frozen=True)
class Standing:
    """Leaves of a column group, or pixels of a margin, with the files of each.

    Attributes
    ----------
    table : pyarrow.Table
        As `PARTITION_SCHEMA`, along the curve; a leaf with several files has several rows.
    tree : PixelTree
        Their pixels.
    first : int64[n + 1]
        Per leaf of the tree, the place of its first file in the table.
    """

    table: pa.Table
    tree: PixelTree
    first: NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> Standing:
        """From partitions in any order."""
        table = curve_sorted(table)
        order, npix = (table[name].to_numpy().astype(np.int64) for name in ("order", "npix"))
        start = starts(order, npix)
        first = np.flatnonzero(np.append(True, start[1:] != start[:-1])) if len(start) else _NO
        return cls(table, PixelTree(order[first], npix[first]), np.append(first, len(start)))

    def rows_before(self, leaf: int) -> int:
        """How many rows lie before a leaf, given by its place in the tree."""
        return int(self.table["rows"].to_numpy()[: int(self.first[leaf])].sum())

    def rows_within(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows the leaves hold that each stretch of order-29 pixels, [start, stop), touches."""
        first = np.searchsorted(self.tree.stop, start, side="right")
        last = np.searchsorted(self.tree.start, stop, side="left")
        before = np.append(0, np.cumsum(self.table["rows"].to_numpy()))
        found: NDArray[np.int64] = before[self.first[last]] - before[self.first[first]]
        return found

    def files(self, leaf: int) -> pa.Table:
        """The files of a leaf, given by its place in the tree."""
        return self.table.slice(int(self.first[leaf]), int(self.first[leaf + 1] - self.first[leaf]))
