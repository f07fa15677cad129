"""Change data: the records of a batch and the rows of a table meet by key, and one of each is left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


class MetRecords(NamedTuple):
    """What became of records and rows that met.

    Attributes
    ----------
    gone : bool[rows]
        Rows of the table that a record replaces or deletes.
    left_out : bool[records]
        Records that change nothing, as another of the batch or a row of the table is newer.
    deleted : int
        Rows that go by a record that deletes.
    missing : int
        Records that count and delete, and found no row.
    outdated : int
        Keys whose last record is older than the row of the table.
    tied : int
        Records that share key and order with one before them.
    example : int
        The number of one of these.
    """

    gone: NDArray[np.bool_]
    left_out: NDArray[np.bool_]
    deleted: int = 0
    missing: int = 0
    outdated: int = 0
    tied: int = 0
    example: int = -1


def meet_records(
    codes: NDArray[np.int64],
    order: NDArray[np.int64],
    deletes: NDArray[np.bool_],
    old_codes: NDArray[np.int64],
    old_order: NDArray[np.int64],
) -> MetRecords:
    """Find of each key what counts: the record of the greatest order, unless a row of the table is newer.

    Parameters
    ----------
    codes, order : int64[records]
        A number for the key of each record, and one that ascends with its order, from 0 on.
    deletes : bool[records]
        Whether it deletes the row of its key; others put one.
    old_codes, old_order : int64[rows]
        The same of rows of the table; rows of a key go or stay together.

    Examples
    --------
    >>> one, two = np.array([0, 0, 1]), np.array([0, 1])
    >>> met = meet_records(one, np.array([1, 3, 5]), np.array([False, True, False]), two, np.array([2, 6]))
    >>> met.gone.tolist(), met.left_out.tolist(), met.deleted, met.outdated
    ([True, False], [True, False, True], 1, 1)
    """
    along = np.lexsort((order, codes))
    same = np.diff(codes[along]) == 0
    tied = np.flatnonzero(same & (np.diff(order[along]) == 0))
    if len(tied):
        nothing = np.zeros(len(old_codes), bool), np.zeros(len(codes), bool)
        return MetRecords(*nothing, tied=len(tied), example=int(along[tied[0] + 1]))
    last = along[np.append(~same, True)] if len(along) else along
    keys = int(max(codes.max(initial=-1), old_codes.max(initial=-1))) + 1
    standing = np.full(keys, -1, np.int64)
    np.maximum.at(standing, old_codes, old_order)
    is_older = standing[codes[last]] > order[last]
    counts = last[~is_older]
    winner = np.full(keys, -1, np.int64)
    winner[codes[counts]] = counts
    left_out = np.ones(len(codes), bool)
    left_out[counts] = False
    by = winner[old_codes]
    gone = by >= 0
    return MetRecords(
        gone,
        left_out,
        deleted=int(deletes[by[gone]].sum()),
        missing=int((deletes[counts] & (standing[codes[counts]] < 0)).sum()),
        outdated=int(is_older.sum()),
    )


def ranks_of(*columns: pa.ChunkedArray) -> list[NDArray[np.int64]]:
    """Numbers that ascend with the values of columns together, equal for equal ones; null is 0, the least."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    whole = pa.chunked_array(chunks, columns[0].type)
    ranks = pc.rank(whole, sort_keys="ascending", tiebreaker="dense")
    numbers = np.array(ranks.to_numpy(zero_copy_only=False), np.int64)  # from 1 on
    numbers[whole.is_null().to_numpy()] = 0
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return np.split(numbers, ends)
