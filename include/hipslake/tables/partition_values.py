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
    found = values.group_by(values.column_names).aggregate([([], "count_all")])
    return found.rename_columns([*values.column_names, ROWS])


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
            code = pc.index_in(_one(values[name]), level.words).to_numpy(zero_copy_only=False)
            codes = level.codes_of(codes * len(level.words) + code)
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

    def codes_of(self, joint: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each in `joint`, which must have all of them."""
        return np.searchsorted(self.joint, joint) if self._table is None else self._table.take(joint)

    @cached_property
    def _table(self) -> NDArray[np.int64] | None:
        """A lookup table from joint codes to places, if the codes are small enough for one."""
        count = int(self.joint[-1]) + 1 if len(self.joint) else 0
        return np.searchsorted(self.joint, np.arange(count)) if count <= _TABLE_SIZE else None


def _one(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _plain(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column, pa.ExtensionArray) else column
