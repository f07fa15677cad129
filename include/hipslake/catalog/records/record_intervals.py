"""Mode upsert with `validity`: from when to when each row was that of its key, by its records. Pure.

Of the records of a key, each holds from what it is ordered by until that of the next one: [from, to). All
rows that nights brought are in leaves, so that only ends of intervals change as nights come.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.records.record_order import RecordOrder
from hipslake.catalog.records.record_rows import (
    BEGIN_COLUMN,
    DELETE_COLUMN,
    END_COLUMN,
    ORDER_COLUMN,
    key_of,
)
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN, ROW_IDENTITY
from hipslake.catalog.validity import NIGHT_START
from hipslake.engine.reordering import in_order
from hipslake.predicates.domains import negative_zero_as_zero


class SettledIntervals(NamedTuple):
    """What a night does to the rows of some keys, all of which stay.

    Tables of rows have `_healpix_29` and `_row`, and are sorted by both.

    Attributes
    ----------
    goes : pyarrow.Table
        Rows of the run that the night replaces.
    closes : pyarrow.Table
        Rows of other nights whose interval ends otherwise than before; with `_end`, null if it ends no more.
    closed : pyarrow.Table
        Rows of the night whose interval has an end; with `_end`.
    """

    goes: pa.Table
    closes: pa.Table
    closed: pa.Table


def settle_intervals(
    standing: pa.Table,
    night: pa.Table,
    *,
    ordinal: int,
    ranks: Mapping[int, int],
    starts: Mapping[int, datetime],
) -> SettledIntervals:
    """Find what a night does to the intervals of rows; parameters and errors as of `settle`.

    Parameters
    ----------
    starts : mapping of int to datetime
        The start of each increment's interval; it counts where there is no `order_by`.
    """
    records = pa.concat_tables([standing.select(night.schema.names).cast(night.schema), night])
    along = _Along.of(records, ranks)
    row, delete = records[ROW_COLUMN].to_numpy(), records[DELETE_COLUMN].to_numpy()
    fresh = np.arange(len(row)) >= standing.num_rows
    replaced = ~fresh & (row >> ORDINAL_SHIFT == ordinal)
    before, after = along.nexts(~fresh), along.nexts(~replaced)
    # Places are compared by what they are ordered by: a night run again brings a record anew.
    kept = ~fresh & ~replaced & ~delete
    closes = kept & (along.orders(before) != along.orders(after))
    closed = fresh & ~delete & (after >= 0)
    instants = _instants(records, starts)
    return SettledIntervals(
        goes=_rows(records, replaced & ~delete),
        closes=_rows(records, closes, instants, after),
        closed=_rows(records, closed, instants, after),
    )


def with_intervals(records: pa.Table, ranks: Mapping[int, int], starts: Mapping[int, datetime]) -> pa.Table:
    """The records that have rows, with `_begin` and `_end` of the interval of each.

    Parameters
    ----------
    records : pyarrow.Table
        All records of their keys.
    ranks, starts
        As of `settle_intervals`.
    """
    instants = _instants(records, starts)
    after = _Along.of(records, ranks).nexts(np.ones(records.num_rows, bool))
    columns = {BEGIN_COLUMN: instants, END_COLUMN: _taken(instants, after)}
    for name, column in columns.items():
        records = records.append_column(name, column)
    return records.filter(pa.array(~records[DELETE_COLUMN].to_numpy()))


def starts_of(keys: Mapping[int, str | None]) -> dict[int, datetime]:
    """The start of each increment's interval, by its ordinal.

    Parameters
    ----------
    keys : mapping of int to str or None
        The keys of increments: starts in ISO 8601. There are no others where rows are told by keys.

    Examples
    --------
    >>> starts_of({3: "2026-11-20T23:00:00-02:00"})[3].isoformat()
    '2026-11-21T01:00:00+00:00'
    """
    found = {ordinal: datetime.fromisoformat(key) for ordinal, key in keys.items() if key}
    return {
        ordinal: (start if start.tzinfo is not None else start.replace(tzinfo=UTC)).astimezone(UTC)
        for ordinal, start in found.items()
    }


class _Along(NamedTuple):
    """Records by key and order: int64[n] each, numbers that have the order of their values."""

    key: NDArray[np.int64]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, records: pa.Table, ranks: Mapping[int, int]) -> _Along:
        (key,) = key_of(records.schema).ranks(records)
        return cls(key, RecordOrder(ranks).numbers(records))

    def nexts(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """For each record that is chosen, the place of the next one of its key that is; -1 for the others."""
        found = np.full(len(chosen), -1)
        along = np.lexsort((self.order, self.key))
        along = along[chosen[along]]
        same = self.key[along[1:]] == self.key[along[:-1]]
        found[along[:-1][same]] = along[1:][same]
        return found

    def orders(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order of the records at some places; -1 where there is no place."""
        return np.append(self.order, -1)[places]


def _instants(records: pa.Table, starts: Mapping[int, datetime]) -> pa.Array:
    """What records are ordered by, as the columns of intervals have it."""
    if ORDER_COLUMN in records.column_names:
        return negative_zero_as_zero(records[ORDER_COLUMN].combine_chunks())
    ordinals, of = np.unique(records[ROW_COLUMN].to_numpy() >> ORDINAL_SHIFT, return_inverse=True)
    known = pa.array([starts[each] for each in ordinals.tolist()], NIGHT_START)
    return known.take(pa.array(of))


def _taken(instants: pa.Array, places: NDArray[np.int64]) -> pa.Array:
    """The instants of some places; null where there is no place."""
    return instants.take(pa.array(places, mask=places < 0))


def _rows(
    records: pa.Table,
    chosen: NDArray[np.bool_],
    instants: pa.Array | None = None,
    after: NDArray[np.int64] | None = None,
) -> pa.Table:
    places = np.flatnonzero(chosen)
    rows = records.select(ROW_IDENTITY).take(pa.array(places)).combine_chunks()
    if instants is not None and after is not None:
        rows = rows.append_column(END_COLUMN, _taken(instants, after[places]))
    return in_order(rows, np.lexsort([rows[name].to_numpy() for name in reversed(ROW_IDENTITY)]))
