"""The heap of a FITS binary table: the values of arrays of variable length, which cells point to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError
from hipslake.sources.fits.bytes import FitsBytes
from hipslake.sources.fits.columns import FitsColumn
from hipslake.sources.fits.tables import FitsTable
from hipslake.sources.fits.values import Pointed

_GAP_BYTES = 1 << 20  # between two stretches of the heap that are rather read than skipped


class Pointers(NamedTuple):
    """Where the values of a column's cells stand in the heap."""

    counts: NDArray[np.int64]  # values of each cell
    offsets: NDArray[np.int64]  # bytes from the heap's beginning

    @classmethod
    def of(
        cls, rows: NDArray[np.uint8], column: FitsColumn, table: FitsTable, *, first_row: int, uri: str
    ) -> Pointers:
        """Return the pointers of a column of rows, uint8[n, row_bytes].

        Raises
        ------
        CorruptFileError
            When one points out of the heap; the message names column and row.
        """
        dtype = np.dtype(">i4" if column.pointer == "P" else ">i8")
        strides = (rows.strides[0], dtype.itemsize)
        pairs = np.ndarray((len(rows), 2), dtype, rows.data, column.offset, strides).astype(np.int64)
        counts, offsets = pairs.T
        room = table.stop - table.heap_start
        last = room - np.clip(counts, 0, room) * column.element_bytes  # where so many values may begin
        out = (counts < 0) | (counts > room) | ((counts > 0) & ((offsets < 0) | (offsets > last)))
        if out.any():
            row = first_row + int(np.argmax(out)) + 1
            raise CorruptFileError(
                f"{uri}: column {column.name!r}, row {row} points out of the heap; replace the file"
            )
        return cls(counts, np.where(counts > 0, offsets, 0))

    def read(self, data: FitsBytes, column: FitsColumn, table: FitsTable, uri: str) -> Pointed:
        """Read the values, cell after cell.

        Raises
        ------
        CorruptFileError
            When the file ends before them.
        """
        size = column.element_bytes
        filled = np.flatnonzero(self.counts)
        order = filled[np.argsort(self.offsets[filled], kind="stable")]
        begins = self.offsets[order]
        ends = np.maximum.accumulate(begins + self.counts[order] * size)
        breaks = np.flatnonzero(begins[1:] > ends[:-1] + _GAP_BYTES) + 1
        firsts, lasts = np.concatenate(([0], breaks)), np.concatenate((breaks, [len(order)])) - 1
        places = np.zeros(len(self.counts), np.int64)  # where each cell's values begin in what was read
        pieces: list[bytes] = []
        held = 0
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True) if len(order) else ():
            start, stop = int(begins[first]), int(ends[last])
            piece = data.read(table.heap_start + start, table.heap_start + stop)
            if len(piece) < stop - start:
                raise CorruptFileError(f"{uri} is truncated: it ends within the heap; replace it")
            stretch = order[first : last + 1]
            places[stretch] = self.offsets[stretch] - start + held
            pieces.append(piece)
            held += len(piece)
        return Pointed(_gathered(b"".join(pieces), places, self.counts, size), self.counts)


def _gathered(
    data: bytes, places: NDArray[np.int64], counts: NDArray[np.int64], size: int
) -> NDArray[np.uint8]:
    """Take `counts` values of `size` bytes from each place, uint8[total * size]."""
    total = int(counts.sum())
    if total == 0:
        return np.empty(0, np.uint8)
    before = np.cumsum(counts) - counts
    if np.array_equal(places, before * size) and len(data) == total * size:
        return np.frombuffer(data, np.uint8)  # as most writers leave it: one after the other
    values = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))  # one begins at every byte
    index = np.repeat(places - before * size, counts) + np.arange(total) * size
    return values[index].view(np.uint8)
