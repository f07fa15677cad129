"""Time series: the rows of one table nested in those of another, per key and in the order of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.errors import SpecError
from hipslake.joins.equijoin import matching_rows
from hipslake.joins.nested_forms import struct_of_lists


def nested_field(right: pa.Schema, name: str) -> pa.Field:
    """The column that holds a time series: a struct with a list per column, never null.

    All lists of a row are equally long; those of an object without sources are empty.

    Parameters
    ----------
    right : pyarrow.Schema
        The columns that are kept of each row.
    name : str
    """
    return pa.field(name, struct_of_lists(right), nullable=False)


def check_nested_name(left: Sequence[str], name: str) -> None:
    """Refuse a name for the time series that is none, or that a column of the objects has in any case."""
    if not isinstance(name, str) or not name:
        raise SpecError(f"the time series cannot be called {name!r}; give it the name of a column")
    taken = [other for other in left if other.casefold() == name.casefold()]
    if taken:
        raise SpecError(f"the time series cannot be called {name!r}: the objects have a column {taken[0]!r}")


def nested(
    left: pa.Table,
    right: pa.Table,
    on: tuple[str, str],
    time: str,
    columns: Sequence[str],
    name: str,
    *,
    keep_empty: bool = True,
) -> pa.Table:
    """Nest the rows of one table in those of another.

    Parameters
    ----------
    left : pyarrow.Table
    right : pyarrow.Table
        With its key, the time and the columns that are kept.
    on : (str, str)
        The key of each side.
    time : str
        Column of the right side. Rows of one time stay in the order of the right side; NaN comes after all
        times, null after that.
    columns : sequence of str
        What is kept of each right row.
    name : str
        Of the column that is added.
    keep_empty : bool
        Whether left rows without any right row stay; their lists are empty.

    Returns
    -------
    pyarrow.Table
        The left rows, in their order, with the time series as the last column: see `nested_field`.
    """
    mine, theirs = matching_rows(left[on[0]], right[on[1]])
    by_time = pc.sort_indices(right[time]).to_numpy()  # stable, with nulls at the end
    rank = np.empty(right.num_rows, np.int64)
    rank[by_time] = np.arange(right.num_rows)
    theirs = theirs[np.lexsort((rank[theirs], mine))]
    counts = np.bincount(mine, minlength=left.num_rows)
    if not keep_empty:
        left, counts = left.filter(pa.array(counts > 0)), counts[counts > 0]
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    rows = right.select(list(columns)).take(pa.array(theirs)).combine_chunks()
    field = nested_field(rows.schema, name)
    lists = [
        pa.ListArray.from_arrays(
            offsets, pa.concat_arrays(column.chunks) if column.num_chunks else _none(column), type=part.type
        )
        for column, part in zip(rows.columns, field.type, strict=True)
    ]
    return left.append_column(field, pa.StructArray.from_arrays(lists, fields=list(field.type)))


def _none(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([], column.type)
