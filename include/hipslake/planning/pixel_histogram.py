"""Histograms: rows in disjoint pixels, along the curve.

Most cells lie at the mapping order; cells that were crowded are replaced by deeper ones, so orders can be
mixed. A full histogram at order 12 has 200 million cells, so every array here is as narrow as it may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.errors import VerificationError
from hipslake.sphere.array_columns import ArrayColumns
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import coarsen, starts

CELL_COLUMNS = ["order", "npix", "rows"]
_BYTES = "bytes_"
_DEEPEST_IN_32_BITS = 14
_TABLE_CELLS = 1 << 20


def count_pixels(h29: NDArray[np.int64], order: int) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Count rows per pixel.

    Parameters
    ----------
    h29 : int64[n]
        Order-29 pixel of each row, in any order.
    order : int
        Order to count at.

    Returns
    -------
    npix : uint32[m] or int64[m]
        Occupied pixels, ascending; in 32 bits as far as they go.
    rows : int64[m]
        The rows in each.
    """
    # 32 bits sort in 60 to 85% of the time; np.bincount is quicker only where rows lie close together.
    pixels: NDArray[np.integer] = coarsen(h29, order).astype(pixel_numbers(order), copy=False)
    if np.any(pixels[1:] < pixels[:-1]):  # rows that are kept come in the order of the curve
        pixels.sort()
    if not len(pixels):
        return pixels, np.empty(0, np.int64)
    first = np.flatnonzero(np.append(True, pixels[1:] != pixels[:-1]))
    return pixels[first], np.diff(np.append(first, len(pixels)))


def pixel_numbers(order: int) -> type[np.uint32] | type[np.int64]:
    """The narrowest type that numbers the pixels of an order."""
    return np.uint32 if order <= _DEEPEST_IN_32_BITS else np.int64


@dataclass(frozen=True)
class Histogram(ArrayColumns):
    """Disjoint cells, sorted along the curve.

    Attributes
    ----------
    order : uint8[n]
    npix : uint32[n] or int64[n]
        32 bits number the pixels down to order 14.
    rows : int64[n]
    """

    order: NDArray[np.uint8]
    npix: NDArray[np.integer]
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.npix)

    @classmethod
    def from_counts(cls, order: int, npix: NDArray[np.integer], rows: NDArray[np.int64]) -> Histogram:
        """The histogram of counts at one order; `npix` ascending and unique."""
        numbers: NDArray[np.integer] = npix.astype(pixel_numbers(order), copy=False)
        return cls(np.broadcast_to(np.uint8(order), len(npix)), numbers, rows)

    @property
    def total_rows(self) -> int:
        """Rows in all cells."""
        return int(self.rows.sum())

    @property
    def orders(self) -> list[int]:
        """The orders that cells have, ascending."""
        if not len(self):
            return []
        if self.order.strides == (0,):  # from_counts: one value, seen n times
            return [int(self.order[0])]
        low, high = int(self.order.min()), int(self.order.max())
        return [order for order in range(low, high + 1) if order in (low, high) or order in self.order]

    def refined(self, crowded: NDArray[np.bool_], finer: Histogram) -> Histogram:
        """Replace cells by the deeper cells that they are made of.

        Parameters
        ----------
        crowded : bool[n]
            The cells that are replaced.
        finer : Histogram
            Cells within them, with the same rows in each.

        Raises
        ------
        VerificationError
            If the finer cells of a crowded cell do not hold its rows; the message names it.
        """
        _check_same_rows(self.select(crowded), finer)
        merged = Histogram.together([self.select(~crowded), finer])
        return merged.select(np.argsort(starts(merged.order, merged.npix)))

    def per_order(self) -> Iterator[tuple[int, Histogram]]:
        """The histogram at every order, from the deepest down to 0, with the cells of that order added in."""
        present = self.orders
        carried = self if len(present) < 2 else self.select(self.order == present[-1])
        for order in range(present[-1] if present else 0, -1, -1):
            if order in present[:-1]:
                carried = Histogram.together([carried, self.select(self.order == order)])
                carried = carried.select(np.argsort(carried.npix))
            yield order, carried
            if order:
                carried = _summed_up(carried, order - 1)

    def to_table(self, row_bytes: Mapping[str, float] | None = None) -> pa.Table:
        """The cells as a table.

        Parameters
        ----------
        row_bytes : mapping of str to float, optional
            Bytes on disk of a row, per column group.

        Returns
        -------
        pyarrow.Table
            order, npix, rows, and `bytes_<group>` for every group of `row_bytes`.
        """
        columns = {"order": self.order, "npix": self.npix, "rows": self.rows}
        for group, weight in (row_bytes or {}).items():
            columns[_BYTES + group] = (self.rows * weight).astype(np.int64)
        # Not nullable: then no levels are written, which takes a third of the time.
        fields = [
            pa.field(name, pa.from_numpy_dtype(values.dtype), nullable=False)
            for name, values in columns.items()
        ]
        return pa.table(columns, schema=pa.schema(fields))

    def to_tables(self, row_bytes: Mapping[str, float] | None = None) -> Iterator[pa.Table]:
        """The cells as `to_table` gives them, some at a time; one empty table if there is none."""
        for low in range(0, max(len(self), 1), _TABLE_CELLS):
            yield self.select(slice(low, low + _TABLE_CELLS)).to_table(row_bytes)

    @classmethod
    def from_table(cls, table: pa.Table) -> Histogram:
        """The inverse of `to_table`."""
        return cls(*(table[name].to_numpy() for name in CELL_COLUMNS))


def coarser_orders(histogram: Histogram, row_bytes: Mapping[str, float] | None = None) -> pa.Table:
    """The cells of all orders coarser than the deepest, from order 0 on, in one table; see `to_table`."""
    deepest, *coarser = [cells for _, cells in histogram.per_order()]
    tables = [cells.to_table(row_bytes) for cells in (deepest.select(slice(0)), *reversed(coarser))]
    return pa.concat_tables(tables)


def _check_same_rows(crowded: Histogram, finer: Histogram) -> None:
    cells = PixelTree(crowded.order, crowded.npix)
    within = cells.find(starts(finer.order, finer.npix))
    if (within < 0).any():
        at = int(np.argmax(within < 0))
        raise ValueError(f"Norder={finer.order[at]}, Npix={finer.npix[at]} lies in no crowded cell")
    found = np.bincount(within, weights=finer.rows, minlength=len(cells)).astype(np.int64)
    differing = np.flatnonzero(found != crowded.rows)
    if len(differing):
        at = int(differing[0])
        raise VerificationError(
            f"{cells[at]} held {crowded.rows[at]} rows, but {found[at]} when it was counted deeper "
            f"({len(differing)} such pixels): the source changed meanwhile; run the histogram step again"
        )


def _summed_up(cells: Histogram, order: int) -> Histogram:
    """Cells of one order summed into their parents at `order`."""
    parents = cells.npix >> 2
    first = np.flatnonzero(np.append(True, parents[1:] != parents[:-1])) if len(parents) else parents
    return Histogram(
        np.broadcast_to(np.uint8(order), len(first)),
        parents[first],
        np.add.reduceat(cells.rows, first) if len(first) else cells.rows,
    )
