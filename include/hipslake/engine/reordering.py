"""Rows in another order, however many bytes their texts have.

Arrow gathers the chunks of a column into one array before it takes rows from it, and the offsets of texts,
bytes and lists have 32 bits: with 2 GiB of text in a table it gives up. Here, such a table is put in order
piece by piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

AnyArray = TypeVar("AnyArray", pa.Array, pa.ChunkedArray)
LARGEST_PIECE = 1 << 30
"""Bytes of rows that are put in order at once: half of what one array of texts holds."""

_PIECES = 4  # of a table of that many bytes, if it has more: each is held three times meanwhile


def in_order(rows: pa.Table, order: NDArray[np.int64], largest: int = LARGEST_PIECE) -> pa.Table:
    """Rows of a table by their places.

    Parameters
    ----------
    rows : pyarrow.Table
    order : integers[n]
        Places in the table.
    largest : int
        A table of more bytes is put together of pieces of some of them.

    Examples
    --------
    >>> in_order(pa.table({"x": [1, 2, 3]}), np.array([2, 0]))["x"].to_pylist()
    [3, 1]
    """
    if rows.nbytes <= largest and len(order) <= rows.num_rows:
        # Rows of one chunk are taken several times as fast; put together as a table, structs of nulls fail.
        whole = pa.table([column.combine_chunks() for column in rows.columns], rows.schema)
        return pc.take(whole, pa.array(order), boundscheck=False)
    batches = rows.to_batches()
    if not batches:
        return rows
    weights = np.concatenate([_row_bytes(batch.to_struct_array()) for batch in batches])[order]
    before = np.cumsum(weights) - weights
    cuts = np.flatnonzero(np.diff(before // max(largest // _PIECES, 1))) + 1
    order = order.astype(np.int64, copy=False)
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    pieces = [_gathered(batches, starts, stretch) for stretch in np.split(order, cuts) if len(stretch)]
    return pa.Table.from_batches(pieces, rows.schema)


def in_sort_order(rows: pa.Table, keys: Sequence[tuple[str, str]], largest: int = LARGEST_PIECE) -> pa.Table:
    """A table sorted as `pyarrow.Table.sort_by` does it, of any size."""
    by = pa.table({name: wide_decimals(rows[name]) for name, _ in keys})
    return in_order(rows, pc.sort_indices(by, sort_keys=list(keys)).to_numpy(), largest)


def wide_decimals(column: AnyArray) -> AnyArray:
    """A column in a type that Arrow sorts: decimals of 32 and 64 bits become those of 128.

    As one of several keys, Arrow 26 puts the smaller ones into a wrong order, without an error.

    Parameters
    ----------
    column : pyarrow.Array or pyarrow.ChunkedArray
    """
    kind = column.type
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column


def _gathered(
    batches: Sequence[pa.RecordBatch], starts: NDArray[np.int64], order: NDArray[np.int64]
) -> pa.RecordBatch:
    """Rows of several batches, by their places in all of them together."""
    batch_of = np.searchsorted(starts, order, side="right") - 1
    found, place, total = [], np.empty(len(order), np.int64), 0
    for number in np.unique(batch_of).tolist():
        mine = np.flatnonzero(batch_of == number)
        found.append(batches[number].take(pa.array(order[mine] - starts[number])))
        place[mine] = np.arange(total, total + len(mine))
        total += len(mine)
    return pa.concat_batches(found).take(pa.array(place))


def _row_bytes(values: pa.Array) -> NDArray[np.int64]:
    """About how many bytes each value takes."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _row_bytes(values.storage)
    if pa.types.is_struct(kind):
        parts = [_row_bytes(values.field(at)) for at in range(kind.num_fields)]
        return np.sum(parts, axis=0, dtype=np.int64) if parts else np.ones(len(values), np.int64)
    if any(is_text(kind) for is_text in _TEXTS):
        return np.asarray(pc.binary_length(values).cast(pa.int64()).fill_null(0)) + 8
    if any(is_list(kind) for is_list in (pa.types.is_list, pa.types.is_large_list, pa.types.is_map)):
        before = np.append(0, np.cumsum(_row_bytes(values.values)))
        offsets = values.offsets.to_numpy()
        return before[offsets[1:]] - before[offsets[:-1]] + 8
    # Of fixed width, or nearly so.
    return np.full(len(values), -(-values.nbytes // max(len(values), 1)), np.int64)


_TEXTS = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
