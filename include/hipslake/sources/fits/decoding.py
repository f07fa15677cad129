"""Rows of a FITS binary table as they lie in the file, decoded column by column into Arrow arrays.

Values are copied once: gathered from the rows and turned to native byte order in the same pass.
The heap holds arrays of variable length, which cells point to.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError, InputError
from hipslake.sources.fits.binary_columns import FitsColumn
from hipslake.sources.fits.binary_table import FitsTable
from hipslake.sources.fits.bytes import FitsBytes

_TRUE, _FALSE = ord("T"), ord("F")
_GAP_BYTES = 1 << 20  # between two stretches of the heap that are rather read than skipped


class Reading(NamedTuple):
    """How values are read, and where they come from, for messages."""

    encoding: str
    nan_is_null: bool
    uri: str
    first_row: int  # of those at hand, in the table


class Pointed(NamedTuple):
    """The values that the cells of a column point to, one cell after the other."""

    values: NDArray[np.uint8]  # bytes
    counts: NDArray[np.int64]  # values of each cell


def decode(
    rows: NDArray[np.uint8], column: FitsColumn, reading: Reading, pointed: Pointed | None = None
) -> pa.Array:
    """Return a column of some rows.

    Parameters
    ----------
    rows
        uint8[n, row_bytes].
    column
        What to decode.
    reading
        How.
    pointed
        The values of the rows, where the column points to them.

    Raises
    ------
    CorruptFileError
        For what is no logical value.
    InputError
        For text that is not of the given encoding.
    """
    count = len(rows)
    if column.repeat == 0:
        return pa.nulls(count, column.field.type)
    if pointed is not None:
        return _pointed_array(column, reading, pointed)
    if column.code == "X":
        bits = np.unpackbits(_cells(rows, column, np.dtype("u1"), column.width), axis=1)
        values = pa.array(bits[:, : column.repeat].reshape(-1).astype(bool))
    elif column.code == "A":
        texts = _cells(rows, column, np.dtype("u1"), column.width).reshape(-1, column.text_bytes)
        values = _texts(texts.copy(), column, reading)
    else:
        per_value = 2 if column.code in "CM" else 1
        dtype = np.dtype("u1") if column.code == "L" else column.dtype
        values = _elements(_cells(rows, column, dtype, column.repeat * per_value), column, reading)
    for size in reversed(column.shape):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def _pointed_array(column: FitsColumn, reading: Reading, pointed: Pointed) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(pointed.counts))).astype(np.int32)
    if column.code == "A":
        return _text_array(pointed.values, offsets, None, column, reading)
    dtype = np.dtype("u1") if column.code == "L" else column.dtype
    values = _elements(pointed.values.view(dtype).reshape(1, -1), column, reading)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _cells(rows: NDArray[np.uint8], column: FitsColumn, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """Return a view of a column's cells, [n, count], without copying."""
    strides = (rows.strides[0], dtype.itemsize)
    return np.ndarray((len(rows), count), dtype, rows.data, column.offset, strides)


def _elements(cells: NDArray[Any], column: FitsColumn, reading: Reading) -> pa.Array:
    """Decode values that are no texts and no bits, [rows, values of a row], into a flat array."""
    if column.code == "L":
        return _logicals(cells, column, reading)
    if column.code in "CM":
        parts = [_numbers(cells[:, at::2], column, reading) for at in (0, 1)]
        return pa.StructArray.from_arrays(parts, fields=list(column.element_type))
    return _numbers(cells, column, reading)


def _numbers(cells: NDArray[Any], column: FitsColumn, reading: Reading) -> pa.Array:
    values = cells.astype(cells.dtype.newbyteorder("="), order="C").reshape(-1)
    null = None
    if column.null is not None:
        null = values == column.null
    if column.unsigned:
        bits = values.dtype.itemsize * 8
        values = values.view(f"u{values.dtype.itemsize}")
        values ^= values.dtype.type(1 << (bits - 1))  # adding or subtracting half the range flips the top bit
        values = values.view(column.element_type.to_pandas_dtype())
    elif column.scaled:
        values = values * np.float64(column.scale) + np.float64(column.zero)
    if values.dtype.kind == "f" and reading.nan_is_null:
        nan = np.isnan(values)
        null = nan if null is None else null | nan
    return pa.array(values, mask=null if null is not None and null.any() else None)


def _logicals(cells: NDArray[np.uint8], column: FitsColumn, reading: Reading) -> pa.Array:
    values = np.ascontiguousarray(cells).reshape(-1)
    true, null = values == _TRUE, values == 0
    if (odd := ~(true | null | (values == _FALSE))).any():
        at = int(np.argmax(odd))
        raise CorruptFileError(
            f"{reading.uri}: column {column.name!r}{_row_of(at, column, reading)}: byte {values[at]:#04x} is "
            "no logical value (T, F, or 0 for null); was the column written as a number?"
        )
    return pa.array(true, mask=null if null.any() else None)


def _texts(texts: NDArray[np.uint8], column: FitsColumn, reading: Reading) -> pa.Array:
    """Decode texts of fixed room, uint8[n, room]: they end at a zero byte, and blanks fill them up.

    A text that begins with a zero byte is null.
    """
    count, room = texts.shape
    zero = texts == 0
    null = zero[:, 0]
    if (zero[:, :-1] & ~zero[:, 1:]).any():
        texts[np.logical_or.accumulate(zero, axis=1)] = 0  # what stands behind the end means nothing
    offsets = np.arange(0, (count + 1) * room, room, dtype=np.int32)
    whole = _text_array(texts.reshape(-1), offsets, null if null.any() else None, column, reading)
    return pc.ascii_rtrim(whole, characters="\0 ")


def _text_array(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int32],
    null: NDArray[np.bool_] | None,
    column: FitsColumn,
    reading: Reading,
) -> pa.Array:
    if reading.encoding == "latin-1" and (data >= 0x80).any():
        longer = np.concatenate(([0], np.cumsum(data >= 0x80)))  # such a character takes two bytes of UTF-8
        offsets = (offsets + longer[offsets]).astype(np.int32)
        data = np.frombuffer(data.tobytes().decode("latin-1").encode(), np.uint8)
    valid = None if null is None else pa.array(~null).buffers()[1]
    texts = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data), valid)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{reading.uri}: column {column.name!r}, from row {reading.first_row + 1} on: a text is not "
            f"UTF-8 ({error}); set source.options.encoding: latin-1 if it is that"
        ) from None
    return texts


def _row_of(value: int, column: FitsColumn, reading: Reading) -> str:
    """Describe the row of a value, for messages; with variable-length cells only the first row is known."""
    if column.pointer:
        return f", from row {reading.first_row + 1} on"
    return f", row {reading.first_row + value // column.repeat + 1}"


class ArrayDescriptors(NamedTuple):
    """Where the values of a column's cells stand in the heap."""

    counts: NDArray[np.int64]  # values of each cell
    offsets: NDArray[np.int64]  # bytes from the heap's beginning

    @classmethod
    def of(
        cls, rows: NDArray[np.uint8], column: FitsColumn, table: FitsTable, *, first_row: int, uri: str
    ) -> ArrayDescriptors:
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
