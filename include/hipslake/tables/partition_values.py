"""Partition values by number: what the distinct ones are, and which each row has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.specs.partition_fields import PartitionField
from hipslake.tables.fitting import arrow_internal
from hipslake.tables.transforms import partition_values

ROWS = "rows"
_TABLE_SIZE = 1 << 16


def value_columns(fields: Sequence[PartitionField], rows: pa.RecordBatch) -> pa.Table:
    """The partition values of rows, one column `0`, `1`, ... per field; UUIDs as bytes."""
    columns = [partition_values(field, rows.column(field.column)) for field in fields]
    return pa.table([_plain(column) for column in columns], names=[str(at) for at in range(len(columns))])


def counted(values: pa.Table, rows: int) -> pa.Table:
    """How many rows each distinct value has: the columns of `values`, and `rows`."""
    if not values.num_columns:
        return pa.table({ROWS: pa.array([rows] if rows else [], pa.int64())})
    if (dense := _counted_densely(values)) is not None:
        return dense
    found = values.group_by(values.column_names).aggregate([([], "count_all")])
    return found.rename_columns([*values.column_names, ROWS])


def distinct_values(values: pa.Table, rows: int) -> tuple[pa.Table, NDArray[np.int64]]:
    """The distinct ones of partition values, one row each, and of each row the place of its own among them.

    Parameters
    ----------
    values : pyarrow.Table
        As of `value_columns`.
    rows : int

    Returns
    -------
    pyarrow.Table, int64[rows]
    """
    if not values.num_columns:
        return values, np.zeros(rows, np.int64)
    if (dense := _DenseCodes.of(values)) is not None:
        there = np.flatnonzero(dense.rows)
        place = np.empty(len(dense.rows), np.int64)
        place[there] = np.arange(len(there))
        return dense.values(there), place.take(dense.codes)
    known = PartitionValues.of(values)
    return known.table, known.numbers(values, rows)


def _counted_densely(values: pa.Table) -> pa.Table | None:
    """As `counted`, by adding up in a table with a cell for each value; None if that would be large."""
    dense = _DenseCodes.of(values)
    if dense is None:
        return None
    there = np.flatnonzero(dense.rows)
    return dense.values(there).append_column(ROWS, pa.array(dense.rows[there]))


@dataclass(frozen=True)
class _DenseCodes:
    """Values as small numbers: where each would lie in a table with a cell for all combinations of them.

    Attributes
    ----------
    codes : int64[n]
        Of each row.
    rows : int64[codes]
        How many rows have each.
    lowest, spans : list of int
        Of each column: the least value, and how many lie from there to the greatest.
    schema : pyarrow.Schema
    """

    codes: NDArray[np.int64]
    rows: NDArray[np.int64]
    lowest: list[int]
    spans: list[int]
    schema: pa.Schema

    @classmethod
    def of(cls, values: pa.Table) -> _DenseCodes | None:
        """Those of some rows; None if the table would be large."""
        codes, size = np.zeros(values.num_rows, np.int64), 1
        lowest: list[int] = []
        spans: list[int] = []
        for column in values.columns:
            found = _near_together(_one(column))
            if found is None or size * found[1] > min(_TABLE_SIZE, values.num_rows):
                return None
            low, span, numbers = found
            codes *= span
            codes += numbers
            codes -= low
            size *= span
            lowest.append(low)
            spans.append(span)
        return cls(codes, np.bincount(codes, minlength=size), lowest, spans, values.schema)

    def values(self, codes: NDArray[np.int64]) -> pa.Table:
        """The values that some codes stand for."""
        columns = []
        places = np.unravel_index(codes, self.spans)
        for each, low, field in zip(places, self.lowest, self.schema, strict=True):
            kind = field.type
            columns.append(pa.array((each + low).astype(f"i{kind.bit_width // 8}")).view(kind))
        return pa.table(columns, names=self.schema.names)


def added_up(counts: pa.Table) -> pa.Table:
    """Counts of several parts, put one below the other, as one per value."""
    names = [name for name in counts.column_names if name != ROWS]
    if not names:
        return pa.table({ROWS: pa.array([pc.sum(counts[ROWS]).as_py() or 0], pa.int64())})
    found = counts.group_by(names).aggregate([(ROWS, "sum")])
    return found.rename_columns([*names, ROWS])


@dataclass(frozen=True)
class PartitionValues:
    """The distinct partition values of some rows, numbered in ascending order.

    Attributes
    ----------
    table : pyarrow.Table
        One row per value, one column per field.
    count : int
        Number of values; 1 where there are no fields.
    """

    table: pa.Table
    count: int

    @classmethod
    def of(cls, values: pa.Table) -> PartitionValues:
        """Number the values in a table, in which they may be repeated."""
        if not values.num_columns:
            return cls(values, 1)
        distinct = values.group_by(values.column_names).aggregate([]).combine_chunks()
        if distinct.num_rows:
            keys = [(name, "ascending") for name in distinct.column_names]
            distinct = distinct.take(pc.sort_indices(distinct, sort_keys=keys))
        return cls(distinct, distinct.num_rows)

    def numbers(self, values: pa.Table, rows: int) -> NDArray[np.int64]:
        """The number of each row's value, int64[rows]; all of them must be known."""
        if not values.num_columns:
            return np.zeros(rows, np.int64)
        codes = np.zeros(rows, np.int64)
        levels, order = self._levels
        for name, level in zip(values.column_names, levels, strict=True):
            codes *= len(level.words)
            codes += level.places_of(_one(values[name]))
            codes = level.codes_of(codes)
        number: NDArray[np.int64] = order[codes]
        return number

    def records(self) -> list[tuple[Any, ...]]:
        """Each value as a tuple of what records of Iceberg hold."""
        columns = [arrow_internal(_one(column)) for column in self.table.columns]
        return list(zip(*columns, strict=True)) if columns else [()]

    @cached_property
    def _levels(self) -> tuple[list[_Level], NDArray[np.int64]]:
        """The levels, one per field, and from the last one's code to the number of the value."""
        levels = []
        codes = np.zeros(self.count, np.int64)
        for column in self.table.columns:
            words = _one(column).unique()
            code = pc.index_in(_one(column), words).to_numpy(zero_copy_only=False)
            joint = codes * len(words) + code
            distinct = np.unique(joint)
            levels.append(_Level(words, distinct))
            codes = np.searchsorted(distinct, joint)
        order = np.empty(self.count, np.int64)
        order[codes] = np.arange(self.count)
        return levels, order


@dataclass(frozen=True)
class _Level:
    """The words of one field, and which of them occur after which values of the fields before."""

    words: pa.Array
    joint: NDArray[np.int64]

    def places_of(self, values: pa.Array) -> NDArray[np.int64]:
        """The place of each value among the words, which must have all of them."""
        if self._near is not None and (found := _near_together(values)) is not None:
            low, table = self._near
            first, span, numbers = found
            if low <= first and first + span <= low + len(table):
                return table.take(numbers - low)
        return np.asarray(pc.index_in(values, self.words))

    @cached_property
    def _near(self) -> tuple[int, NDArray[np.int64]] | None:
        """The least word, and from there on the place of each number; None if they are no near numbers."""
        found = _near_together(self.words)
        if found is None:
            return None
        low, span, numbers = found
        table = np.zeros(span, np.int64)
        table[numbers - low] = np.arange(len(numbers))
        return low, table

    def codes_of(self, joint: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each in `joint`, which must have all of them."""
        return np.searchsorted(self.joint, joint) if self._table is None else self._table.take(joint)

    @cached_property
    def _table(self) -> NDArray[np.int64] | None:
        """A lookup table from joint codes to places, if the codes are small enough for one."""
        count = int(self.joint[-1]) + 1 if len(self.joint) else 0
        return np.searchsorted(self.joint, np.arange(count)) if count <= _TABLE_SIZE else None


def _near_together(values: pa.Array) -> tuple[int, int, NDArray[np.integer]] | None:
    """The least value, how far the greatest lies above it plus 1, and the values as numbers.

    None if they are no whole numbers, dates or times, if there are nulls, or no values at all, or if the
    greatest lies far above.
    """
    kind = values.type
    if values.null_count or not len(values):
        return None
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not pa.types.is_signed_integer(kind):
        return None
    numbers = values.to_numpy()
    low, high = int(numbers.min()), int(numbers.max())
    return None if high - low >= _TABLE_SIZE else (low, high - low + 1, numbers)


def _one(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _plain(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column, pa.ExtensionArray) else column
