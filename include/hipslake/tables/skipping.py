"""Which data files may hold certain rows, told by their bounds: the others are not read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType

from hipslake.tables.data_files import arrow_internal, bounds, null_count

_MICROS_PER_DAY = 86_400_000_000


def files_with_keys(
    files: Sequence[DataFile], table: Table, key: Sequence[str], ranges: Sequence[pa.Table]
) -> list[DataFile]:
    """The files that may hold one of some keys.

    Parameters
    ----------
    files : sequence of DataFile
    table : pyiceberg.table.Table
    key : sequence of str
    ranges : sequence of pyarrow.Table
        Per key column the least and the greatest values of some of the keys, row by row; each table is a
        box that some of the keys lie in.
    """
    if not ranges:
        return []
    schema = table.schema()
    boxes = [{name: _extremes(box[name]) for name in key} for box in ranges]
    return [file for file in files if _may_hold(file, schema, key, boxes)]


def _extremes(column: pa.ChunkedArray) -> tuple[Any, Any]:
    values = [value for value in arrow_internal(column.combine_chunks()) if value is not None]
    return min(values), max(values)


def _may_hold(
    file: DataFile, schema: Schema, key: Sequence[str], boxes: list[dict[str, tuple[Any, Any]]]
) -> bool:
    known = {}
    for name in key:
        if null_count(file, schema, name) == file.record_count:
            return False  # a null is no key
        found = bounds(file, schema, name)
        if found is not None:
            known[name] = found
    return any(
        all(low <= box[name][1] and box[name][0] <= high for name, (low, high) in known.items())
        for box in boxes
    )


def files_in_interval(
    files: Sequence[DataFile], table: Table, column: str, start: datetime, end: datetime | None
) -> tuple[list[DataFile], list[DataFile]]:
    """The files all of whose rows have their time in [start, end), and those of which some may."""
    schema = table.schema()
    of_date = isinstance(schema.find_field(column).field_type, DateType)
    unit = _MICROS_PER_DAY if of_date else 1
    first, last = _micros(start), np.inf if end is None else _micros(end)
    whole: list[DataFile] = []
    some: list[DataFile] = []
    for file in files:
        nulls = null_count(file, schema, column)
        if nulls == file.record_count:
            continue
        found = bounds(file, schema, column)
        if found is None:
            some.append(file)
            continue
        low, high = found[0] * unit, found[1] * unit
        if high < first or low >= last:
            continue
        (whole if nulls == 0 and first <= low and high < last else some).append(file)
    return whole, some


def files_of_write(files: Sequence[DataFile], write_id: str) -> list[DataFile]:
    """The files that a write has made."""
    return [file for file in files if f"/{write_id}/" in file.file_path]


def _micros(moment: datetime) -> int:
    return int(pa.scalar(moment, pa.timestamp("us", tz="UTC")).value)
