"""Days before 1582 in files of writers that counted them by the Julian calendar.

Parquet's dates and times are of the proleptic Gregorian calendar. Spark before 3.0 (of INT96 before 3.1),
later ones in their mode LEGACY, and Hive if it is told to, store the number of another day for dates before
1582-10-15; in times before 1900, the local mean time of the writer's zone has a part too. Such files are
known by what their footer says of the writer. Their later days are what they seem; a file with earlier ones
is refused, as Spark itself does unless it is told what to think.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.errors import InputError
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.int96 import StoredTimes, leaf_count, stored_leaves

_FIRST_DATE = -141_427  # 1582-10-15, the first day of the Gregorian calendar, in days since 1970
_FIRST_TIME = -25_567  # 1900-01-01: of later times no zone differs
_PER_DAY = {
    "milliseconds": 86_400_000,
    "microseconds": 86_400_000_000,
    "nanoseconds": 86_400_000_000_000,
}

_SPARK = b"org.apache.spark.version"
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_LEGACY = b"org.apache.spark.legacyDateTime"
_SPARK_LEGACY_INT96 = b"org.apache.spark.legacyINT96"
_SPARK_ZONE = b"org.apache.spark.timeZone"
_HIVE_PROLEPTIC = b"writer.date.proleptic"


class _TimeColumn(NamedTuple):
    """A column of Parquet whose days are of the older calendar."""

    name: str  # of the top-level column
    place: int  # among the columns of Parquet
    leaf: int  # among those of them that the top-level column is made of
    per_day: int | None  # of the stored numbers; None: INT96


def check_calendar(
    file: Any, metadata: pq.FileMetaData, names: Iterable[str], groups: Sequence[int], where: str
) -> None:
    """Look that days of a file are those of the calendar that Parquet has.

    Parameters
    ----------
    file
        Opened for pyarrow.
    metadata : pyarrow.parquet.FileMetaData
    names : iterable of str
        Top-level columns that are read.
    groups : sequence of int
        Row groups that are read.
    where : str
        The file, for messages.

    Raises
    ------
    InputError
        The file's writer counted by the Julian calendar, and has days of it.
    """
    asked = set(names)
    columns = [column for column in _columns_of_old_days(metadata) if column.name in asked]
    if not columns or not len(groups):
        return
    unsure, chunks = [], ColumnChunks(metadata)
    for column in columns:
        lowest = [_least(chunks(group, column.place)) for group in groups]
        known = [value for value in lowest if value is not None]
        if len(known) < len(lowest) or column.per_day is None:
            unsure.append(column)
        elif min(known) < _limit(column):
            raise _refusal(where, column)
    for name, leaves in stored_leaves(file, list(dict.fromkeys(column.name for column in unsure)), groups):
        for column in unsure:
            if column.name == name and _is_early(column, leaves[column.leaf].drop_null()):
                raise _refusal(where, column)


def without_writer(metadata: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The notes of a file without those that say who wrote it and how it counted days.

    Rows of several files lie together in a new one, whose writer is another.
    """
    gone = {_SPARK, _SPARK_LEGACY, _SPARK_LEGACY_INT96, _SPARK_ZONE, _HIVE_PROLEPTIC}
    return {name: value for name, value in metadata.items() if name not in gone}


def _refusal(where: str, column: _TimeColumn) -> InputError:
    first = "1582-10-15" if column.per_day == 1 else "1900-01-01"
    return InputError(
        f"{where}: column {column.name!r} has values before {first}, counted by the Julian calendar, as the "
        "footer says (Spark before 3.0, or its mode LEGACY; Hive): they are other days than they seem; write "
        "the file anew by Spark 3 or later with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED, "
        "spark.sql.parquet.int96RebaseModeInWrite=CORRECTED and spark.sql.parquet.outputTimestampType="
        "TIMESTAMP_MICROS"
    )


def _is_early(column: _TimeColumn, values: pa.Array) -> bool:
    """Whether any stored value lies before the days that both calendars count alike."""
    if column.per_day is None:
        return bool(np.any(StoredTimes.of(values).days < _FIRST_TIME))
    return bool(np.any(values.to_numpy() < _limit(column)))


def _limit(column: _TimeColumn) -> int:
    return _FIRST_DATE if column.per_day == 1 else _FIRST_TIME * (column.per_day or 1)


def _columns_of_old_days(metadata: pq.FileMetaData) -> Iterator[_TimeColumn]:
    dates, times, int96 = _older(metadata)
    if not (dates or times or int96):
        return
    place = 0
    for field in metadata.schema.to_arrow_schema():
        for leaf in range(leaf_count(field.type)):
            column = metadata.schema.column(place)
            kind = column.logical_type.type
            if column.physical_type == "INT96":
                if int96:
                    yield _TimeColumn(field.name, place, leaf, None)
            elif kind == "DATE" and dates:
                yield _TimeColumn(field.name, place, leaf, 1)
            elif kind == "TIMESTAMP" and times:
                unit = json.loads(column.logical_type.to_json())
                if unit["isAdjustedToUTC"]:  # Spark has no other than proleptic days of times without a zone
                    yield _TimeColumn(field.name, place, leaf, _PER_DAY[unit["timeUnit"]])
            place += 1


def _older(metadata: pq.FileMetaData) -> tuple[bool, bool, bool]:
    """Whether dates, times and INT96 times are counted by the older calendar, by what the footer says."""
    entries = metadata.metadata or {}
    release = re.match(rb"(\d+)\.(\d+)", entries.get(_SPARK, b""))
    if release:
        known = (int(release[1]), int(release[2]))
    else:  # the first ones of Spark 2 do not say which
        first = _SPARK_SCHEMA in entries and metadata.created_by.startswith("parquet-mr")
        known = (2, 0) if first else (99, 0)
    by_spark = known < (3, 0) or _SPARK_LEGACY in entries
    by_hive = entries.get(_HIVE_PROLEPTIC, b"").lower() == b"false"
    return by_spark or by_hive, by_spark, known < (3, 1) or _SPARK_LEGACY_INT96 in entries


def _least(chunk: pq.ColumnChunkMetaData) -> int | None:
    """The least number of a column chunk; None if it is not known."""
    statistics = chunk.statistics
    if statistics is None:
        return None
    if statistics.has_min_max:
        return int(statistics.min_raw) if isinstance(statistics.min_raw, int) else None
    return 0 if statistics.has_null_count and statistics.null_count == chunk.num_values else None
