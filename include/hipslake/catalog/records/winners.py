"""Which record of a key wins, and what becomes of rows when a night comes to a catalog. Pure.

Of the records of a key, that with the greatest value of `order_by` wins; without it, that of the night whose
interval begins last. If it is a put, its row is the row of the key; if it is a delete, the key has none. So
what a catalog holds depends on the records of its nights alone, in whatever order these came.

Deletions and reassignments correct records of nights, whose order they have: `record_order` tells the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.records.key_columns import KeyColumns
from hipslake.catalog.records.record_order import RecordOrder
from hipslake.catalog.records.record_rows import DELETE_COLUMN, ORDER_COLUMN, key_of
from hipslake.catalog.row_sets import ORDINAL_SHIFT, row_text
from hipslake.catalog.schema import ROW_COLUMN, ROW_IDENTITY
from hipslake.engine.reordering import in_order
from hipslake.errors import InputError, VerificationError

_EXAMPLES = 3


class Settled(NamedTuple):
    """What a night does to the rows of some keys.

    Tables of rows have `_healpix_29` and `_row`, and are sorted by both.

    Attributes
    ----------
    goes : pyarrow.Table
        Rows that are in leaves before and not after, those of the run that the night replaces among them.
    comes : pyarrow.Table
        Rows of the night that are in leaves after.
    returns : pyarrow.Table
        Rows of other nights that were superseded, and are in leaves after.
    beaten : pyarrow.Table
        Of those that go, the rows of other nights: superseded from now on.
    late : pyarrow.Table
        Rows of the night that are superseded when they come.
    inserted, updated, deleted, outdated, missing_deletes : int
        As in the metadata of the increment: compared with what there is without the night, so that they are
        the same when it is run again.
    """

    goes: pa.Table
    comes: pa.Table
    returns: pa.Table
    beaten: pa.Table
    late: pa.Table
    inserted: int
    updated: int
    deleted: int
    outdated: int
    missing_deletes: int


def settle(
    standing: pa.Table,
    night: pa.Table,
    *,
    ordinal: int,
    order: RecordOrder,
    nights: Mapping[int, str] | None = None,
) -> Settled:
    """Find what a night does to the rows of its keys, and of those that the run before had that it replaces.

    Parameters
    ----------
    standing : pyarrow.Table
        All records of these keys in the version that the night comes to, as `records_schema` has them. Those
        of the night's ordinal are of the run that it replaces.
    night : pyarrow.Table
        Its own records.
    ordinal : int
        Of the night.
    order : RecordOrder
    nights : mapping of int to str, optional
        What increments are called in messages.

    Raises
    ------
    InputError
        Two records of a key have the same value of `order_by`; or, without it, a key comes twice in the
        night. The message shows them.
    VerificationError
        An increment has no rank, or records of the version contradict each other.
    """
    by = key_of(night.schema)
    records = pa.concat_tables([standing.select(night.schema.names).cast(night.schema), night])
    (key,) = by.ranks(records)
    row, delete = records[ROW_COLUMN].to_numpy(), records[DELETE_COLUMN].to_numpy()
    fresh = np.arange(len(row)) >= standing.num_rows
    replaced = ~fresh & (row >> ORDINAL_SHIFT == ordinal)
    numbers = order.numbers(records)
    along = np.lexsort((row, numbers, key))
    _check_distinct(records, along[~replaced[along]], key, numbers, by, nights)

    before = _winners(along[~fresh[along]], key)
    without = _winners(along[~(fresh | replaced)[along]], key)
    after = _winners(along[~replaced[along]], key)
    lived, lives = (_marked(winners[~delete[winners]], len(row)) for winners in (before, after))
    had_row = _marked(key[without[~delete[without]]], int(key.max(initial=-1)) + 1)
    won = after[fresh[after]]
    puts, deletes = won[~delete[won]], won[delete[won]]

    def rows(chosen: NDArray[np.bool_]) -> pa.Table:
        return _rows(records, np.flatnonzero(chosen))

    kept = ~fresh & ~replaced
    return Settled(
        goes=rows(lived & ~lives),
        comes=rows(lives & fresh),
        returns=rows(lives & ~lived & kept),
        beaten=rows(lived & ~lives & kept),
        late=rows(fresh & ~delete & ~lives),
        inserted=int(np.count_nonzero(~had_row[key[puts]])),
        updated=int(np.count_nonzero(had_row[key[puts]])),
        deleted=int(np.count_nonzero(had_row[key[deletes]])),
        outdated=int(np.count_nonzero(fresh)) - len(won),
        missing_deletes=int(np.count_nonzero(~had_row[key[deletes]])),
    )


def winning(records: pa.Table, order: RecordOrder) -> pa.Table:
    """The records that win, one for each key: puts and deletes.

    Parameters
    ----------
    records : pyarrow.Table
        All records of their keys.
    order : RecordOrder

    Raises
    ------
    VerificationError
        As of `settle`, and where it raises `InputError`: the records are those of a version.
    """
    by = key_of(records.schema)
    (key,) = by.ranks(records)
    numbers = order.numbers(records)
    along = np.lexsort((records[ROW_COLUMN].to_numpy(), numbers, key))
    try:
        _check_distinct(records, along, key, numbers, by, None)
    except InputError as error:
        raise VerificationError(str(error)) from error
    return records.take(pa.array(_winners(along, key)))


def _winners(along: NDArray[np.int64], key: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last record of each key; `along` has places of records by key and order."""
    keys = key[along]
    return along[np.append(keys[1:] != keys[:-1], True)[: len(keys)]]


def _marked(places: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    marks = np.zeros(size, bool)
    marks[places] = True
    return marks


def _rows(records: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    rows = records.select(ROW_IDENTITY).take(pa.array(places)).combine_chunks()
    return in_order(rows, np.lexsort([rows[name].to_numpy() for name in reversed(ROW_IDENTITY)]))


def _check_distinct(
    records: pa.Table,
    along: NDArray[np.int64],
    key: NDArray[np.int64],
    order: NDArray[np.int64],
    by: KeyColumns,
    nights: Mapping[int, str] | None,
) -> None:
    """Hold the records of each key against each other: no two have the same order."""
    keys, orders = key[along], order[along]
    same = np.flatnonzero((keys[1:] == keys[:-1]) & (orders[1:] == orders[:-1]))
    if not len(same):
        return
    _, first = np.unique(keys[same], return_index=True)
    shown = []
    for at in same[first][:_EXAMPLES].tolist():
        pair = records.take(pa.array(along[at : at + 2])).to_pylist()
        told = ", ".join(f"{name} {pair[0][name]!r}" for name in by.names)
        order_value = f" with order {pair[0][ORDER_COLUMN]!r}" if ORDER_COLUMN in pair[0] else ""
        shown.append(f"{told}{order_value} in {' and '.join(_told(each, nights) for each in pair)}")
    more = "; ..." if len(first) > _EXAMPLES else ""
    if ORDER_COLUMN in records.column_names:
        what = f"{len(first)} keys have records of the same order, so that none is the last"
        mend = "Take a column for order_by that tells them apart, or mend the files"
    else:
        what = f"{len(first)} keys come twice in a night, and nothing says which record is the last"
        mend = "Write order_by, a column that says it, into the spec, or mend the files"
    raise InputError(f"{what}: {'; '.join(shown)}{more}. {mend}")


def _told(record: dict[str, Any], nights: Mapping[int, str] | None) -> str:
    row = record[ROW_COLUMN]
    night = (nights or {}).get(row >> ORDINAL_SHIFT)
    return row_text(row) if night is None else f"{row_text(row)} ({night})"
