"""Which data files may hold certain rows, told by their bounds: the others are not read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from hipslake.predicates.predicate_tree import And, Compare, Predicate, TextLiteral
from hipslake.predicates.pruning import KnownValues, may_pass, surely_passes
from hipslake.tables.data_files import arrow_internal, bounds, null_count

_KINDS = {
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}
"""How Iceberg counts the times of an interval: bounds are numbers of these units."""


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


def in_interval(column: str, start: datetime, end: datetime | None) -> Predicate:
    """The rows whose time is in [start, end); no end: from start on.

    Parameters
    ----------
    column : str
        Of dates, or of timestamps with a zone, or without one, then in UTC.
    start, end : datetime.datetime
        With a zone.
    """
    parts = [Compare(column, ">=", _literal(start))]
    if end is not None:
        parts.append(Compare(column, "<", _literal(end)))
    return And(tuple(parts))


def files_in_interval(
    files: Sequence[DataFile], table: Table, column: str, start: datetime, end: datetime | None
) -> tuple[list[DataFile], list[DataFile]]:
    """The files all of whose rows have their time in [start, end), and those of which some may."""
    schema = table.schema()
    kind = _KINDS[str(schema.find_field(column).field_type)]
    arrow, within = pa.schema([(column, kind)]), in_interval(column, start, end)
    whole: list[DataFile] = []
    some: list[DataFile] = []
    for file in files:
        low, high = bounds(file, schema, column) or (None, None)
        known = {column: KnownValues(low, high, null_count(file, schema, column), file.record_count)}
        if low is not None and surely_passes(within, known, arrow):
            whole.append(file)
        elif may_pass(within, known, arrow):
            some.append(file)
    return whole, some


def _literal(moment: datetime) -> TextLiteral:
    return TextLiteral(moment.astimezone(UTC).replace(tzinfo=None).isoformat())
