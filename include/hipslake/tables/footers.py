"""The rows and the bounds of columns in the footers of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.clustering.column_values import path_of, type_at
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.range_ids import RangeBounds
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage
from hipslake.tables.fitting import arrow_internal, from_internal
from hipslake.tables.stored_files import names_in_file, opened_parquet

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


class Bounds(NamedTuple):
    """The bounds of a column in a file; times as numbers. Both are None if unknown, or without a value."""

    low: Any
    high: Any
    empty: bool  # there is no value, only nulls


class FileFooter(NamedTuple):
    """The parts of a file's footer that are used."""

    schema: pa.Schema
    rows: int
    bytes: int
    metadata: pq.FileMetaData

    def bounds(self, column: str, schema: pa.Schema) -> Bounds:
        """The bounds of a plain column, or of a field of a struct, over all row groups.

        The column may have another name in the file.

        Where the file has field ids and lacks the column, it was added later: there are only nulls.
        """
        kind = type_at(schema, column)
        first, *rest = path_of(schema, column) or [column]
        (name,) = names_in_file(self.schema, schema, [schema.field(first)])
        if name is None:
            return Bounds(None, None, True)
        path = ".".join([name, *rest])
        at = [n for n in range(self.metadata.num_columns) if self.metadata.schema.column(n).path == path]
        found: list[tuple[Any, Any]] = []
        nulls, chunks = 0, ColumnChunks(self.metadata)
        for group in range(self.metadata.num_row_groups):
            statistics = chunks(group, at[0]).statistics if at else None
            if statistics is None:
                return Bounds(None, None, False)
            nulls += statistics.null_count if statistics.has_null_count else 0
            if statistics.has_min_max:
                found.append(extremes(statistics, kind))
            elif statistics.num_values:  # values without bounds: only NaN, or bytes that are too long
                return Bounds(None, None, False)
        if not found:
            return Bounds(None, None, nulls == self.rows)
        return Bounds(min(low for low, _ in found), max(high for _, high in found), False)


def extremes(statistics: pq.Statistics, kind: pa.DataType) -> tuple[Any, Any]:
    """The least and the greatest value of a column chunk that has them, of a column of a type.

    Times are given as their numbers, since Python's end with the year 9999.
    """
    if not pa.types.is_temporal(kind) or statistics.logical_type.type not in ("TIMESTAMP", "DATE", "TIME"):
        return statistics.min, statistics.max
    raw = from_internal([statistics.min_raw, statistics.max_raw], _stored_time(statistics, kind))
    low, high = arrow_internal(raw.cast(kind, safe=False))
    return low, high


def _stored_time(statistics: pq.Statistics, kind: pa.DataType) -> pa.DataType:
    """The type of the numbers of a column of times in a file."""
    if statistics.logical_type.type == "DATE":
        return pa.date32()
    unit = _UNITS[json.loads(statistics.logical_type.to_json())["timeUnit"]]
    if statistics.logical_type.type == "TIMESTAMP":
        return pa.timestamp(unit, getattr(kind, "tz", None))
    return pa.time32(unit) if unit == "ms" else pa.time64(unit)


def read_footer(path: str) -> FileFooter:
    """Read the footer of a file.

    Raises
    ------
    CorruptFileError
        It is no Parquet file, or damaged.
    """
    storage, name = Storage.of_file(path)
    size = storage.entry(name).size
    with opened_parquet(path, size) as (_, parquet):
        return FileFooter(parquet.schema_arrow, parquet.metadata.num_rows, size, parquet.metadata)


def boxes_of(footers: Sequence[FileFooter], ranges: RangeBounds, schema: pa.Schema) -> FileBoxes:
    """The bounds of files in shares of the rows, by the ranges of the columns.

    A column of the table (`schema`) without known bounds spans everything, so that every query opens the
    file, as a reader has to.
    """
    low = np.empty((len(footers), len(ranges.columns)))
    high = np.empty_like(low)
    for at, column in enumerate(ranges.columns):
        kind = type_at(schema, column.name)
        found = [footer.bounds(column.name, schema) for footer in footers]
        unknown = np.array([bounds.low is None for bounds in found], bool)
        empty = np.array([bounds.empty for bounds in found], bool)
        for into, values, step in (
            (low, [bounds.low for bounds in found], 0),
            (high, [bounds.high for bounds in found], 1),
        ):
            ids = column.ids(_as_array(values, kind)).astype(np.float64)
            into[:, at] = np.where(unknown, float(step), (ids + step) / column.count)
            into[empty, at] = np.nan
    return FileBoxes(low, high)


def _as_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    are_numbers = all(isinstance(value, int | None) for value in values)
    return from_internal(values, kind) if are_numbers else pa.array(values, kind)
