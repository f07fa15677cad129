"""A table read row by row in plain Python, by the words of Iceberg's specification, for comparison.

It shares nothing with the library but the Parquet reader: Avro files are read by fastavro, delete files are
applied one row after the other.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
from pyiceberg.table import Table

Row = dict[str, Any]


def plain_rows(table: Table, snapshot: int | None = None) -> list[Row]:
    """The rows of a snapshot (by default the current one), in the columns of the current schema."""
    told = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    number = told.get("current-snapshot-id") if snapshot is None else snapshot
    [current] = [each for each in told.get("snapshots", []) if each["snapshot-id"] == number] or [None]
    if current is None:
        return []
    specs = {spec["spec-id"]: spec["fields"] for spec in told["partition-specs"]}
    data, positions, values = [], [], []
    for manifest in _avro(current["manifest-list"]):
        for entry in _avro(manifest["manifest_path"]):
            if entry["status"] == 2:
                continue
            sequence = entry.get("sequence_number")
            if sequence is None:
                assert entry["status"] == 1 or manifest.get("sequence_number", 0) == 0
                sequence = manifest.get("sequence_number", 0)
            assert sequence >= manifest.get("min_sequence_number", 0)
            file = entry["data_file"]
            spec = manifest["partition_spec_id"]
            place = spec, tuple(map(_key, file["partition"].values()))
            kind = (data, positions, values)[file.get("content", 0)]
            kind.append((file, sequence, place, all(each["transform"] == "void" for each in specs[spec])))
    gone = [
        (row[2147483546], row[2147483545], sequence, place)
        for file, sequence, place, _ in positions
        for row in _rows(file["file_path"])
    ]
    columns = {field["id"]: field["name"] for field in told["schemas"][-1]["fields"]}
    for schema in told["schemas"]:
        if schema["schema-id"] == told["current-schema-id"]:
            columns = {field["id"]: field["name"] for field in schema["fields"]}
    found = []
    for file, sequence, place, _ in data:
        path = file["file_path"]
        left_out = {
            at for name, at, since, where in gone if name == path and sequence <= since and where == place
        }
        by_values: list[tuple[list[int], set[tuple[Any, ...]]]] = []
        for deletes, since, where, is_global in values:
            if sequence < since and (is_global or where == place):
                by = sorted(deletes["equality_ids"])
                by_values.append((by, {_keys(row, by) for row in _rows(deletes["file_path"])}))
        for at, row in enumerate(_rows(path)):
            if at not in left_out and not any(_keys(row, by) in some for by, some in by_values):
                found.append({name: row.get(number) for number, name in columns.items()})
    return found


def counted(rows: list[Row]) -> Counter[str]:
    """Rows as a multiset."""
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)


def _avro(path: str) -> list[dict[str, Any]]:
    with Path(path.removeprefix("file://")).open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


def _rows(path: str) -> list[dict[int, Any]]:
    """Rows of a file, by field ids."""
    read = pq.read_table(path)
    numbers = [int((field.metadata or {}).get(b"PARQUET:field_id", -1)) for field in read.schema]
    columns = [column.to_pylist() for column in read.columns]
    return [dict(zip(numbers, row, strict=True)) for row in zip(*columns, strict=True)]


def _keys(row: dict[int, Any], by: list[int]) -> tuple[Any, ...]:
    return tuple(_key(row.get(number)) for number in by)


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack("<d", math.nan if math.isnan(value) else value)
    return value
