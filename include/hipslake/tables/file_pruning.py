"""Pruning: which data files may hold certain rows, by their bounds; the others are not read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from hipslake.predicates.predicate_tree import And, Compare, Predicate, TextLiteral
from hipslake.predicates.pruning import KnownValues, may_pass, surely_passes
from hipslake.tables.fitting import arrow_internal
from hipslake.tables.protocol import LiveFile


def files_with_keys(
    files: Sequence[LiveFile], key: Sequence[str], ranges: Sequence[pa.Table]
) -> list[LiveFile]:
    """The files that may hold one of some keys.

    Parameters
    ----------
    files : sequence of LiveFile
    key : sequence of str
    ranges : sequence of pyarrow.Table
        Per key column the least and the greatest values of some of the keys, row by row; each table is a
        box that some of the keys lie in.
    """
    boxes = [{name: _extremes(box[name]) for name in key} for box in ranges]
    return [file for file in files if boxes and _may_hold(file, key, boxes)]


def _extremes(column: pa.ChunkedArray) -> tuple[Any, Any]:
    values = [value for value in arrow_internal(column.combine_chunks()) if value is not None]
    return min(values), max(values)


def _may_hold(file: LiveFile, key: Sequence[str], boxes: list[dict[str, tuple[Any, Any]]]) -> bool:
    if any(file.null_count(name) == file.rows for name in key):
        return False  # a null is no key
    known = {name: found for name in key if (found := file.bounds(name)) is not None}
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
    files: Sequence[LiveFile], schema: pa.Schema, column: str, start: datetime, end: datetime | None
) -> tuple[list[LiveFile], list[LiveFile]]:
    """The files all of whose rows have their time in [start, end), and those of which some may.

    Parameters
    ----------
    files : sequence of LiveFile
    schema : pyarrow.Schema
        Of the table.
    column, start, end
        As for `in_interval`.
    """
    return files_passing(files, schema, in_interval(column, start, end))


def files_passing(
    files: Sequence[LiveFile], schema: pa.Schema, predicate: Predicate
) -> tuple[list[LiveFile], list[LiveFile]]:
    """The files for all of whose rows a predicate is true, and those for some of whose rows it may be.

    Parameters
    ----------
    files : sequence of LiveFile
    schema : pyarrow.Schema
        Of the table.
    predicate : Predicate
    """
    asked = pa.schema([field for field in schema if field.name in predicate.columns])
    whole: list[LiveFile] = []
    some: list[LiveFile] = []
    for file in files:
        known = {field.name: _known(file, field) for field in asked}
        bounded = all(each.low is not None for each in known.values())
        if bounded and surely_passes(predicate, known, asked):
            whole.append(file)
        elif may_pass(predicate, known, asked):
            some.append(file)
    return whole, some


_BOUNDED = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_string,
)
"""Types of columns whose bounds are values of their domains."""


def _known(file: LiveFile, field: pa.Field) -> KnownValues:
    if pa.types.is_nested(field.type):
        return KnownValues()
    nulls = file.null_count(field.name)
    if not any(is_a(field.type) for is_a in _BOUNDED):
        return KnownValues(nulls=nulls, rows=file.rows)
    low, high = file.bounds(field.name) or (None, None)
    return KnownValues(low, high, nulls, file.rows)


def _literal(moment: datetime) -> TextLiteral:
    return TextLiteral(moment.astimezone(UTC).replace(tzinfo=None).isoformat())
