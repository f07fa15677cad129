"""Rows of a VOTable that are written as bytes (BINARY, BINARY2), decoded column by column."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError
from hipslake.sources.votable.fields import VotableField, cells, with_nulls

_LENGTH = struct.Struct(">i")
_TRUE, _FALSE, _UNKNOWN = b"Tt1", b"Ff0", b"? \0"


class BinaryRows(NamedTuple):
    """Whole rows.

    Attributes
    ----------
    data
        Their bytes.
    starts, counts
        Where the values of each cell begin in the bytes, and how many there are, int64[rows, fields].
    null
        Which cells BINARY2 calls null, bool[rows, fields].
    size
        Bytes that the rows take; what follows is the beginning of another row.
    """

    data: bytes
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    null: NDArray[np.bool_]
    size: int


def cut_rows(data: bytes, fields: Sequence[VotableField], *, flags: bool, where: str) -> BinaryRows:
    """Find the rows that are whole, and every cell in them.

    Parameters
    ----------
    data
        Bytes that begin with a row.
    flags
        Whether rows begin with a bit for every field, set where it is null: BINARY2.
    where
        The file and the rows, for messages.

    Raises
    ------
    CorruptFileError
        When a length is negative.
    """
    head = (len(fields) + 7) // 8 if flags else 0
    fixed = [None if field.varies else _cell_bytes(field, _fixed_count(field)) for field in fields]
    if all(size is not None for size in fixed):
        sizes = np.array([head, *fixed], np.int64)
        width = int(sizes.sum())
        rows = len(data) // width if width else 0
        begins = np.arange(rows) * width
        starts = begins[:, None] + np.cumsum(sizes)[:-1]
        counts = np.broadcast_to([_fixed_count(field) for field in fields], starts.shape)
        return BinaryRows(data, starts, counts, _null(data, begins, fields, flags), rows * width)
    found = _walk(data, fields, fixed, head, where)
    table = np.array(found, np.int64).reshape(-1, 1 + 2 * len(fields))
    begins, starts, counts = table[:, 0], table[:, 1 : 1 + len(fields)], table[:, 1 + len(fields) :]
    size = 0
    if len(table):
        last = fields[-1]
        size = int(starts[-1, -1]) + _cell_bytes(last, int(counts[-1, -1]))
    return BinaryRows(data, starts, counts, _null(data, begins, fields, flags), size)


def decode_binary(
    rows: BinaryRows, number: int, field: VotableField, where: str, *, nan_is_null: bool
) -> pa.Array:
    """Return a column of some rows.

    Parameters
    ----------
    rows
        From `cut_rows`.
    number
        Which field.
    field
        What it holds.
    where
        The file and the rows, for messages.

    Raises
    ------
    CorruptFileError
        When a value is none of the field's type.
    """
    null = rows.null[:, number]
    counts = np.where(null, 0, rows.counts[:, number])
    sizes = (counts + 7) // 8 if field.datatype == "bit" else counts * field.value_bytes
    data = _gathered(rows.data, rows.starts[:, number], sizes)
    if field.is_text:
        return _texts(data, counts, null, field, where)
    if field.datatype == "bit" and not field.varies and not field.shape:
        values = pa.array(data != 0)  # the standard sets the first bit, astropy the fifth
    elif field.datatype == "bit":
        bits = np.unpackbits(data)
        kept = np.arange(len(bits)) - np.repeat(8 * (np.cumsum(sizes) - sizes), 8 * sizes)
        values = pa.array(bits[kept < np.repeat(counts, 8 * sizes)].astype(bool))
    elif field.datatype == "boolean":
        values = _flags(data, field, where)
    else:
        numbers = data.view(field.dtype).astype(field.dtype.newbyteorder("="))
        if field.is_complex:
            parts = [pa.array(np.ascontiguousarray(numbers[at::2])) for at in (0, 1)]
            values = pa.StructArray.from_arrays(parts, fields=list(field.value_type))
        else:
            values = pa.array(numbers)
        values = with_nulls(values, field, nan_is_null=nan_is_null)
    if field.varies or field.shape:
        return cells(values, counts, null, field, where)
    return values.take(pa.array(np.cumsum(counts) - counts, mask=null)) if null.any() else values


def _fixed_count(field: VotableField) -> int:
    return field.room or 0 if field.is_text else field.values


def _cell_bytes(field: VotableField, count: int) -> int:
    return (count + 7) // 8 if field.datatype == "bit" else count * field.value_bytes


def _walk(
    data: bytes, fields: Sequence[VotableField], fixed: Sequence[int | None], head: int, where: str
) -> list[int]:
    """Locate rows of variable length; per row: its begin, then the starts and the counts of its cells."""
    found: list[int] = []
    position = 0
    per_count = [field.values if not field.is_text else 1 for field in fields]
    while position < len(data):
        begin = position
        position += head
        starts, counts = [], []
        for field, size, per in zip(fields, fixed, per_count, strict=True):
            if size is None:
                if position + _LENGTH.size > len(data):
                    return found
                count = _LENGTH.unpack_from(data, position)[0] * per
                if count < 0:
                    raise CorruptFileError(
                        f"{where}: column {field.name!r}: a length is negative; replace it"
                    )
                position += _LENGTH.size
                size = _cell_bytes(field, count)
            else:
                count = _fixed_count(field)
            starts.append(position)
            counts.append(count)
            position += size
        if position > len(data):
            return found
        found += [begin, *starts, *counts]
    return found


def _null(
    data: bytes, begins: NDArray[np.int64], fields: Sequence[VotableField], flags: bool
) -> NDArray[np.bool_]:
    if not flags or not len(begins):
        return np.zeros((len(begins), len(fields)), bool)
    places = begins[:, None] + np.arange((len(fields) + 7) // 8)
    packed = np.frombuffer(data, np.uint8)[places]
    return np.unpackbits(packed, axis=1)[:, : len(fields)].astype(bool)


def _gathered(data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Concatenate `sizes` bytes from each of `starts`."""
    before = np.cumsum(sizes) - sizes
    index = np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))
    return np.frombuffer(data, np.uint8)[index]


def _flags(data: NDArray[np.uint8], field: VotableField, where: str) -> pa.Array:
    known = np.frombuffer(_TRUE + _FALSE + _UNKNOWN, np.uint8)
    if (odd := ~np.isin(data, known)).any():
        raise CorruptFileError(
            f"{where}: column {field.name!r}: byte {data[np.argmax(odd)]:#04x} is no boolean; mend it"
        )
    true, unknown = (np.isin(data, np.frombuffer(which, np.uint8)) for which in (_TRUE, _UNKNOWN))
    return pa.array(true, mask=unknown)


def _texts(
    data: NDArray[np.uint8],
    counts: NDArray[np.int64],
    null: NDArray[np.bool_],
    field: VotableField,
    where: str,
) -> pa.Array:
    """Decode texts, of which each ends at a zero character, if it has one."""
    characters: NDArray[Any] = data.view(">u2") if field.value_bytes == 2 else data
    ends = np.cumsum(counts)
    begins = ends - counts
    zeros = np.append(np.flatnonzero(characters == 0), len(characters))
    lengths = np.minimum(zeros[np.searchsorted(zeros, begins)], ends) - begins
    within = np.arange(len(characters)) - np.repeat(begins, counts) < np.repeat(lengths, counts)
    characters = characters[within]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    content = characters.tobytes()
    try:
        if field.value_bytes == 2:
            offsets = np.concatenate(([0], np.cumsum(_utf8_bytes(characters))))[offsets]
            content = content.decode("utf-16-be").encode()
        texts = pa.StringArray.from_buffers(
            len(counts),
            pa.py_buffer(offsets.astype(np.int32)),
            pa.py_buffer(content),
            pa.array(~null).buffers()[1] if null.any() else None,
        )
        texts.validate(full=True)
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise CorruptFileError(
            f"{where}: column {field.name!r}: a text is not "
            f"{'UTF-16' if field.value_bytes == 2 else 'UTF-8'}: {error}; mend it"
        ) from None
    return texts


def _utf8_bytes(characters: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many bytes of UTF-8 each UTF-16 unit becomes; the halves of a pair two each."""
    halves = (characters >= 0xD800) & (characters < 0xE000)
    return 1 + (characters >= 0x80) + ((characters >= 0x800) & ~halves).astype(np.int64)
