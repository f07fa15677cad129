"""Joins of two tables by equal keys, in the order of the left side.

The equi-join puts rows side by side; the time series nests the rows of one table in those of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import SpecError
from hipslake.joins.key_codes import KeyedRows
from hipslake.joins.match_columns import MatchColumns, refuse_twins, suffixed_names
from hipslake.joins.nested_forms import struct_of_lists
from hipslake.sphere.intervals import range_numbers
from hipslake.sphere.pixels import HEALPIX_COLUMN

JoinKind = Literal["inner", "left", "anti"]
Places = NDArray[np.int64]


def equijoin_columns(
    left: pa.Schema,
    right: pa.Schema,
    how: JoinKind,
    *,
    on: tuple[str, str],
    suffixes: tuple[str, str],
) -> MatchColumns:
    """Name the columns of an equi-join.

    A name that both sides have gets the suffix of its side, but for `_healpix_29` of the left; a key that
    both sides call by one name stands once. An anti-join has the columns of the left side alone.

    Parameters
    ----------
    left, right : pyarrow.Schema
        The columns that are kept of each side; of the left without `_healpix_29`, which it has anyway.
    how : {"inner", "left", "anti"}
    on : (str, str)
        The key of each side.
    suffixes : (str, str)

    Raises
    ------
    SpecError
        Two columns of the outcome would have one name (upper and lower case are the same).
    """
    if how == "anti":
        return MatchColumns({name: name for name in left.names}, {}, left)
    kept = [name for name in right.names if not (name == on[0] == on[1] and name in left.names)]
    taken = {name.casefold() for name in (HEALPIX_COLUMN, *left.names)} & {name.casefold() for name in kept}
    mine = suffixed_names(left.names, taken, suffixes[0])
    others = suffixed_names(kept, taken, suffixes[1])
    fields = [left.field(name).with_name(given) for name, given in mine.items()]
    fields += [right.field(name).with_name(given) for name, given in others.items()]
    if how == "left":
        fields[len(mine) :] = [field.with_nullable(True) for field in fields[len(mine) :]]
    refuse_twins([HEALPIX_COLUMN, *(field.name for field in fields)], "join", suffixes, "")
    return MatchColumns(mine, others, pa.schema(fields))


def equijoined(
    left: pa.Table, right: pa.Table, on: tuple[str, str], how: JoinKind, columns: MatchColumns
) -> pa.Table:
    """Join two tables.

    Parameters
    ----------
    left : pyarrow.Table
        With `_healpix_29`, its key and the left columns of the join.
    right : pyarrow.Table
        With its key and the right columns.
    on : (str, str)
        The key of each side, of one kind. Null equals nothing.
    how : {"inner", "left", "anti"}
    columns : MatchColumns

    Returns
    -------
    pyarrow.Table
        `_healpix_29` of the left row and the columns of the join; in the order of the left side, and for each
        of its rows in the order of the right.
    """
    mine, theirs = matching_rows(left[on[0]], right[on[1]])
    if how == "anti":
        mine = np.setdiff1d(np.arange(left.num_rows), mine)
    where: pa.Array = pa.array(theirs)
    if how == "left":
        alone = np.setdiff1d(np.arange(left.num_rows), mine)
        order = np.argsort(np.concatenate([mine, alone]), kind="stable")
        mine = np.concatenate([mine, alone])[order]
        partner = np.concatenate([theirs, np.full(len(alone), -1)])[order]
        where = pa.array(partner, mask=partner < 0)
    arrays = left.select([HEALPIX_COLUMN, *columns.left]).take(pa.array(mine)).columns
    if columns.right:
        arrays += right.select(list(columns.right)).take(where).columns
    return pa.Table.from_arrays(arrays, schema=columns.outcome)


def matching_rows(left: pa.ChunkedArray, right: pa.ChunkedArray) -> tuple[Places, Places]:
    """The pairs of rows with equal keys.

    Parameters
    ----------
    left, right : pyarrow.ChunkedArray
        Keys of one kind.

    Returns
    -------
    left, right : int64[m]
        Places of the pairs, ascending by (left, right).

    Examples
    --------
    >>> left, right = (pa.chunked_array([keys]) for keys in ([7, 8, None, 7], [7, None, 9, 7]))
    >>> [side.tolist() for side in matching_rows(left, right)]
    [[0, 0, 3, 3], [0, 3, 0, 3]]
    """
    mine, theirs = KeyedRows.of(left), KeyedRows.of(right)
    order = np.argsort(theirs.codes, kind="stable")
    codes = theirs.codes[order]
    first = np.searchsorted(codes, mine.codes, side="left")
    counts = np.searchsorted(codes, mine.codes, side="right") - first
    here = np.repeat(np.arange(len(mine.codes)), counts)
    there = order[range_numbers(first, counts)]
    if pa.types.is_large_string(mine.keys.type):  # two texts may share a code
        same = pc.equal(mine.keys.take(pa.array(here)), theirs.keys.take(pa.array(there)))
        equal = same.to_numpy(zero_copy_only=False)
        here, there = here[equal], there[equal]
    return mine.rows[here], theirs.rows[there]


def keys_of(on: str | Sequence[str]) -> tuple[str, str]:
    """The key of each side, as a user names them; `SpecError` for what is neither a name nor two.

    Examples
    --------
    >>> keys_of("id"), keys_of(["id", "object_id"])
    (('id', 'id'), ('id', 'object_id'))
    """
    if isinstance(on, str):
        return on, on
    return _two_texts(on, "on: give the key of each side, such as ('id', 'object_id')")


def suffixes_of(suffixes: Sequence[str] | None, right_name: str) -> tuple[str, str]:
    """The suffixes of both sides, by default none and the right catalog's name; `SpecError` for no two."""
    if suffixes is None:
        return "", f"_{right_name}"
    left, right = _two_texts(suffixes, "suffixes: give one for each side, such as ('', '_b')")
    if left == right:
        raise SpecError(f"suffixes: both are {left!r}; give two that differ")
    return left, right


def _two_texts(given: Sequence[str], mend: str) -> tuple[str, str]:
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(isinstance(x, str) for x in given):
        raise SpecError(f"{mend}, not {given!r}")
    return given[0], given[1]


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
        pa.ListArray.from_arrays(offsets, column.combine_chunks(), type=part.type)
        for column, part in zip(rows.columns, field.type, strict=True)
    ]
    return left.append_column(field, pa.StructArray.from_arrays(lists, fields=list(field.type)))
