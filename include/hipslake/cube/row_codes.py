"""Rows encoded as integers, by which equal rows of two tables are found without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.predicates.domains import negative_zero_as_zero

_MOST_CODES = 1 << 62


def paired_codes(
    left: pa.Table, right: pa.Table, columns: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the rows of two tables: equal where the rows are equal in some columns, and only there.

    Parameters
    ----------
    left, right : pyarrow.Table
    columns : sequence of str
        Both have them, of the same types and without nulls. With none, all rows are equal. -0.0 is 0.0.

    Returns
    -------
    int64[left], int64[right]
    """
    rows = left.num_rows
    if len(columns) == 1 and pa.types.is_signed_integer(left.schema.field(columns[0]).type):
        mine, others = (_numbers(table.column(columns[0])) for table in (left, right))
        return mine, others
    codes = np.zeros(rows + right.num_rows, np.int64)
    distinct = 1
    for name in columns:
        kind = left.schema.field(name).type
        both = pa.chunked_array([*left.column(name).chunks, *right.column(name).chunks], kind)
        numbers, size = _numbered(both, _MOST_CODES // distinct)
        if distinct * size > _MOST_CODES:
            codes, distinct = _renumbered(codes)
        codes = codes * size + numbers
        distinct *= size
    return codes[:rows], codes[rows:]


def codes(table: pa.Table, columns: Sequence[str]) -> NDArray[np.int64]:
    """Numbers of the rows of one table; as for `paired_codes`."""
    return paired_codes(table, table.slice(0, 0), columns)[0]


def places_in(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first place of every number of the left among those of the right; -1 where there is none.

    Examples
    --------
    >>> places_in(np.array([7, 8, 9]), np.array([9, 7])).tolist()
    [1, -1, 0]
    """
    if len(left) == len(right) and np.array_equal(left, right):  # datasets of the same cells are the rule
        first = np.arange(len(left))
        if len(left) < 2 or bool(np.all(np.diff(left) > 0)):
            return first
    found = pc.index_in(pa.array(left), value_set=pa.array(right))
    places: NDArray[np.int64] = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def matches(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs of equal numbers: their places on the left, ascending, and on the right, ascending for each.

    Examples
    --------
    >>> [side.tolist() for side in matches(np.array([2, 1, 3]), np.array([1, 2, 1]))]
    [[0, 1, 1], [1, 0, 2]]
    """
    order = np.argsort(right, kind="stable")
    ranked = right[order]
    low, high = (np.searchsorted(ranked, left, side=side) for side in ("left", "right"))
    counts = high - low
    mine = np.repeat(np.arange(len(left)), counts)
    offset = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    return mine, order[np.repeat(low, counts) + offset]


def bounds_of(table: pa.Table, columns: Sequence[str]) -> NDArray[np.int64]:
    """Where rows that are equal in some columns begin, and after them the length: int64[runs + 1].

    Parameters
    ----------
    table : pyarrow.Table
        Equal rows stand together; there are no nulls in the columns.
    columns : sequence of str
        With none, all rows are equal.

    Examples
    --------
    >>> bounds_of(pa.table({"x": [5, 5, 2]}), ["x"]).tolist()
    [0, 2, 3]
    """
    rows = table.num_rows
    if not rows:
        return np.zeros(1, np.int64)
    differs = np.zeros(rows - 1, bool)
    for name in columns:
        column = table.column(name)
        if pa.types.is_integer(column.type):
            values = column.to_numpy()
            differs |= values[1:] != values[:-1]
            continue
        whole = column.combine_chunks()
        changed = pc.not_equal(whole.slice(1), whole.slice(0, rows - 1))
        differs |= changed.to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(differs) + 1, [rows]]).astype(np.int64)


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    values: NDArray[np.int64] = column.to_numpy().astype(np.int64, copy=False)
    return values


def _numbered(column: pa.ChunkedArray, most: int) -> tuple[NDArray[np.int64], int]:
    """Numbers from 0 for the values of a column, and how many there may be."""
    if pa.types.is_signed_integer(column.type) and len(column):
        values = _numbers(column)
        low, high = int(values.min()), int(values.max())
        if high - low < most:
            return values - low, high - low + 1
    encoded = negative_zero_as_zero(column).combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), max(1, len(encoded.dictionary))


def _renumbered(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    values, numbers = np.unique(codes, return_inverse=True)
    return numbers.astype(np.int64), max(1, len(values))
