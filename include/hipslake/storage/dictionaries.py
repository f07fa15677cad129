"""Which columns of a Parquet file are worth a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_SAMPLE_ROWS = 1 << 14
_SAMPLE_BYTES = 64 << 20  # of a column; Arrow counts no more than 2 GiB of texts
_MOST_DISTINCT = ((1 << 8, 0.99), (1 << 11, 0.95), (_SAMPLE_ROWS, 0.5))
"""Of so many rows of a column that gets a dictionary, the largest share of values that differ.

What differs nearly everywhere in few rows does so in more, and to count those takes long. Of n rows with V
values that are all as frequent, a share of 1 - n/2V differs: V = 10,000 leads to about each of the shares.
"""

_FEW = _MOST_DISTINCT[0][0]  # values, that are counted by a set

_SURELY_REPEATS = 0.5
"""Where no larger share of few values differs, none does of more."""


def repeating_columns(rows: pa.Table) -> list[str] | bool:
    """Return the columns whose values repeat, as pyarrow takes them for `use_dictionary`.

    A dictionary of values that hardly repeat is built, found too large, and given up: that costs a third of
    the time of writing, and leaves larger files.

    Parameters
    ----------
    rows : pyarrow.Table
        Of the file; some are looked at.

    Returns
    -------
    list of str or bool
        Names of columns; False: none. True, that is all, where a column is nested: there, columns of the file
        are not those of the table.
    """
    if any(pa.types.is_nested(field.type) for field in rows.schema):
        return True
    sample = rows.slice(0, _SAMPLE_ROWS)
    return [name for name in rows.schema.names if _repeats(sample[name])] or False


def _repeats(values: pa.ChunkedArray) -> bool:
    if isinstance(values.type, pa.BaseExtensionType):
        return False  # UUIDs
    if pa.types.is_null(values.type):
        return True
    if pa.types.is_dictionary(values.type):
        return True
    if not _is_of_fixed_width(values.type):
        while len(values) > 1 and values.nbytes > _SAMPLE_BYTES:
            values = values.slice(0, len(values) // 2)
    for rows, most in _MOST_DISTINCT:
        some = values.slice(0, rows)
        share = count_distinct(some) / max(len(some), 1)
        if share > most:
            return False
        if share <= _SURELY_REPEATS:
            return True
    return True


def count_distinct(values: pa.ChunkedArray) -> int:
    """How many values differ; all nulls are one, and floats differ where their bits do.

    Numbers and times are sorted, not hashed: of so few as a sample has, that takes a tenth of the time. Of a
    few hundred, Python makes a set: threads that write files do not wait for Python's global lock meanwhile.
    """
    if not _is_of_fixed_width(values.type):
        return int(pc.count_distinct(values, mode="all").as_py())
    found = _bits(values.drop_null() if values.null_count else values)
    if len(found) <= _FEW:
        return len(set(found.tolist())) + bool(values.null_count)
    found = np.sort(found)
    return 1 + int(np.count_nonzero(found[1:] != found[:-1])) + bool(values.null_count)


def _bits(values: pa.ChunkedArray) -> NDArray[np.signedinteger[Any]]:
    """Numbers or times, none of them null, as integers of their width; a view where there is one chunk."""
    kind = _INTEGERS[values.type.bit_width]
    found = [
        np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * kind.itemsize)
        for chunk in values.chunks
        if len(chunk)
    ]
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, kind), *found])


_INTEGERS = {8 * size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def _is_of_fixed_width(kind: pa.DataType) -> bool:
    """Whether values are numbers or times of whole bytes."""
    return pa.types.is_primitive(kind) and kind.bit_width in _INTEGERS
