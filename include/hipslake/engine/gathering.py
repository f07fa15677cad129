"""Rows of many record batches, put together in an order of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.engine.reordering import in_order

_WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Gathering:
    """Takes a stretch of each of several batches, and puts the rows of all in order.

    Columns of numbers, times and the like without nulls, which most are, are gathered as arrays of numpy:
    Arrow makes objects for each stretch of each column, which take longer than the values if these are few.

    Parameters
    ----------
    batches : sequence of pyarrow.RecordBatch
        Of one schema.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches, self._schema = batches, batches[0].schema
        self._bits: dict[int, list[NDArray[np.unsignedinteger]]] = {}
        for at, kind in enumerate(self._schema.types):
            bits = _bits_of([batch.column(at) for batch in batches]) if _is_plain(kind) else None
            if bits is not None:
                self._bits[at] = bits
        self._others = [at for at in range(len(self._schema)) if at not in self._bits]

    def rows(self, first: NDArray[np.int64], counts: NDArray[np.int64], order: NDArray[np.int64]) -> pa.Table:
        """The rows of a stretch of each batch, in order.

        Parameters
        ----------
        first, counts : int64[n]
            Of each batch, the first row and how many.
        order : integers[m]
            For each row, which it is of the stretches one after another; each is there once.

        Returns
        -------
        pyarrow.Table of m rows
            Columns are in one piece, but for texts of more than some GiB.
        """
        stretches = [
            (number, start, start + count)
            for number, (start, count) in enumerate(zip(first.tolist(), counts.tolist(), strict=True))
            if count
        ]
        columns: dict[int, pa.Array | pa.ChunkedArray] = {}
        room = np.frombuffer(pa.allocate_buffer(8 * len(order) if self._bits else 0), np.uint8)
        for at, bits in self._bits.items():
            kind = bits[0].dtype
            together = room[: len(order) * kind.itemsize].view(kind)
            np.concatenate([bits[number][start:stop] for number, start, stop in stretches], out=together)
            ordered = pa.allocate_buffer(together.nbytes)
            # All are in range; "raise" would copy once more.
            together.take(order, out=np.frombuffer(ordered, kind), mode="clip")
            buffers = [None, ordered]
            columns[at] = pa.Array.from_buffers(self._schema.field(at).type, len(order), buffers)
        if self._others:
            slices = [
                self._batches[number].select(self._others).slice(start, stop - start)
                for number, start, stop in stretches
            ]
            columns |= zip(self._others, in_order(pa.Table.from_batches(slices), order).columns, strict=True)
        return pa.Table.from_arrays([columns[at] for at in range(len(self._schema))], schema=self._schema)


def _is_plain(kind: pa.DataType) -> bool:
    return pa.types.is_primitive(kind) and kind.bit_width in _WIDTHS


def _bits_of(arrays: Sequence[pa.Array]) -> list[NDArray[np.unsignedinteger]] | None:
    """The values of arrays of one plain type as bits, without a copy; None if there are nulls."""
    found = []
    for array in arrays:
        if array.null_count:
            return None
        values = np.frombuffer(array.buffers()[1], _WIDTHS[array.type.bit_width])
        found.append(values[array.offset : array.offset + len(array)])
    return found
