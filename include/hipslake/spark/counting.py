"""Sparse counts of rows per pixel, gathered over chunks and parts in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.planning.histogram import count_pixels
from hipslake.storage import Storage

_COMPACT_CELLS = 1 << 22
_DENSE_ORDER = 11  # up to here all pixels of the sky fit into 400 MB
_DENSE_SHARE = 32  # and are worth it once one in so many is counted
_PART_SCHEMA = pa.schema([("npix", pa.int64()), ("rows", pa.int64())])


class PixelCounts:
    """Rows per pixel at one order, added up as they come."""

    def __init__(self, order: int) -> None:
        self.order = order
        self._pending: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._cells = 0

    def add_rows(self, h29: NDArray[np.int64]) -> None:
        """Count rows by their `_healpix_29`, int64[n]."""
        if len(h29):
            self.add_cells(*count_pixels(h29, self.order))

    def add_cells(self, npix: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Add rows of pixels; `npix` ascending and unique, int64[m] both."""
        self._pending.append((npix, rows))
        self._cells += len(npix)
        if len(self._pending) > 1 and self._cells > 2 * _COMPACT_CELLS + 2 * len(self._pending[0][0]):
            self._compact()

    def total(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pixels, ascending and unique, and the rows in each."""
        if not self._pending:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        self._compact()
        return self._pending[0]

    def _compact(self) -> None:
        pixels = 12 << (2 * self.order)
        if len(self._pending) > 1 and self.order <= _DENSE_ORDER and self._cells > pixels // _DENSE_SHARE:
            dense = np.zeros(pixels, np.int64)
            for npix, rows in self._pending:
                dense[npix] += rows
            occupied = np.flatnonzero(dense)
            self._pending = [(occupied, dense[occupied])]
        elif len(self._pending) > 1:
            npix = np.concatenate([part[0] for part in self._pending])
            rows = np.concatenate([part[1] for part in self._pending])
            order = np.argsort(npix)
            npix, rows = npix[order], rows[order]
            first = np.flatnonzero(np.append(True, npix[1:] != npix[:-1]))
            self._pending = [(npix[first], np.add.reduceat(rows, first))]
        self._cells = len(self._pending[0][0])


def write_part(storage: Storage, path: str, counts: PixelCounts) -> None:
    """Store the counts of one task."""
    npix, rows = counts.total()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _PART_SCHEMA) as writer:
        writer.write_batch(pa.record_batch([pa.array(npix), pa.array(rows)], schema=_PART_SCHEMA))
    storage.write(path, sink.getvalue(), durable=False)


def sum_parts(storage: Storage, paths: Iterable[str], order: int) -> PixelCounts:
    """Add up the counts that the tasks left."""
    counts = PixelCounts(order)
    for path in paths:
        table = pa.ipc.open_file(storage.read(path)).read_all()
        if table.num_rows:
            counts.add_cells(table["npix"].to_numpy(), table["rows"].to_numpy())
    return counts
