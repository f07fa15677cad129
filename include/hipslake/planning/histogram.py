"""Histograms: rows (and bytes per column group) in disjoint pixels, along the curve.

Most cells lie at the mapping order; cells that were crowded are replaced by deeper ones, so orders can be mixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.sphere.pixels import coarsen, starts

_BYTES = "bytes_"


def count_pixels(h29: NDArray[np.int64], order: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count rows per pixel.

    Parameters
    ----------
    h29 : int64[n]
        Order-29 pixel of each row, in any order.
    order : int
        Order to count at.

    Returns
    -------
    npix, rows : int64[m]
        Occupied pixels, ascending, and the rows in each.
    """
    pixels = np.sort(coarsen(h29, order))
    if not len(pixels):
        return pixels, pixels.copy()
    first = np.flatnonzero(np.append(True, pixels[1:] != pixels[:-1]))
    return pixels[first], np.diff(np.append(first, len(pixels)))


@dataclass(frozen=True)
class Histogram:
    """Disjoint cells, sorted along the curve.

    Attributes
    ----------
    order : uint8[n]
    npix : uint32[n] or int64[n]
    rows : int64[n]
    bytes : mapping of column group to int64[n]
        Estimated bytes on disk.
    """

    order: NDArray[np.uint8]
    npix: NDArray[np.integer]
    rows: NDArray[np.int64]
    bytes: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.npix)

    @classmethod
    def from_counts(
        cls,
        order: int,
        npix: NDArray[np.integer],
        rows: NDArray[np.int64],
        bytes: Mapping[str, NDArray[np.int64]] | None = None,
    ) -> Histogram:
        """The histogram of counts at one order; `npix` ascending and unique."""
        # One order for all cells: a view of one value, since a full order-12 histogram has 200 million of them.
        return cls(np.broadcast_to(np.uint8(order), len(npix)), npix, rows, dict(bytes or {}))

    @property
    def total_rows(self) -> int:
        """Rows in all cells."""
        return int(self.rows.sum())

    @property
    def orders(self) -> list[int]:
        """The orders that cells have, ascending."""
        if not len(self):
            return []
        lowest, highest = int(self.order.min()), int(self.order.max())
        return [order for order in range(lowest, highest + 1) if order in (lowest, highest) or order in self.order]

    def select(self, chosen: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Histogram:
        """Some of the cells: a mask, ascending places, or a slice."""
        return Histogram(
            self.order[chosen],
            self.npix[chosen],
            self.rows[chosen],
            {group: values[chosen] for group, values in self.bytes.items()},
        )

    def refined(self, crowded: NDArray[np.bool_], finer: Histogram) -> Histogram:
        """Replace cells by the deeper cells that they are made of.

        Parameters
        ----------
        crowded : bool[n]
            The cells that are replaced.
        finer : Histogram
            Cells within them, with the same rows in total.

        Raises
        ------
        ValueError
            If the rows of the cells that go and of those that come differ.
        """
        gone, come = int(self.rows[crowded].sum()), finer.total_rows
        if gone != come:
            raise ValueError(f"{int(crowded.sum())} crowded cells hold {gone} rows, their finer cells {come}")
        kept = self.select(~crowded)
        merged = Histogram(
            np.concatenate([kept.order, finer.order]),
            np.concatenate([kept.npix.astype(np.int64), finer.npix.astype(np.int64)]),
            np.concatenate([kept.rows, finer.rows]),
            {group: np.concatenate([kept.bytes[group], finer.bytes[group]]) for group in kept.bytes},
        )
        return merged.select(np.argsort(starts(merged.order, merged.npix)))

    def per_order(self) -> Iterator[tuple[int, Histogram]]:
        """The histogram at every order, from the deepest down to 0, with the cells of that order added in."""
        carried: Histogram | None = None
        for order in range(max(self.orders, default=0), -1, -1):
            own = self.select(self.order == order)
            carried = own if carried is None else _added(carried, own)
            yield order, carried
            if order:
                carried = _halved(carried, order - 1)

    def to_table(self) -> pa.Table:
        """The cells as a table: order, npix, rows, and `bytes_<group>` per column group."""
        columns = {"order": self.order, "npix": self.npix.astype(np.int64), "rows": self.rows}
        columns |= {_BYTES + group: values for group, values in self.bytes.items()}
        return pa.table(columns)

    @classmethod
    def from_table(cls, table: pa.Table) -> Histogram:
        """The inverse of `to_table`."""
        groups = [name.removeprefix(_BYTES) for name in table.column_names if name.startswith(_BYTES)]
        return cls(
            table["order"].to_numpy(),
            table["npix"].to_numpy(),
            table["rows"].to_numpy(),
            {group: table[_BYTES + group].to_numpy() for group in groups},
        )


def per_order_table(histogram: Histogram) -> pa.Table:
    """All orders of a histogram in one table, from 0 on."""
    tables = [cells.to_table() for _, cells in histogram.per_order()]
    return pa.concat_tables(reversed(tables))


def _added(a: Histogram, b: Histogram) -> Histogram:
    """Cells of one order that do not share pixels, in curve order."""
    if not len(b):
        return a
    merged = Histogram(
        np.concatenate([a.order, b.order]),
        np.concatenate([a.npix, b.npix]),
        np.concatenate([a.rows, b.rows]),
        {group: np.concatenate([a.bytes[group], b.bytes[group]]) for group in a.bytes},
    )
    return merged.select(np.argsort(merged.npix))


def _halved(cells: Histogram, order: int) -> Histogram:
    """Cells of one order summed into their parents at `order`."""
    parents = cells.npix >> 2
    first = np.flatnonzero(np.append(True, parents[1:] != parents[:-1])) if len(parents) else parents
    return Histogram(
        np.full(len(first), order, np.uint8),
        parents[first],
        _sums(cells.rows, first),
        {group: _sums(values, first) for group, values in cells.bytes.items()},
    )


def _sums(values: NDArray[np.int64], first: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.add.reduceat(values, first) if len(first) else values[:0]


