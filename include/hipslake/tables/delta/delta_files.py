"""Data files of Delta tables: those of a version, with their bounds, and those that tasks have written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from hipslake.errors import CorruptFileError, InputError, PlanError, SpecError, StorageError
from hipslake.specs.base import Frozen
from hipslake.storage.plain_json import plain_json
from hipslake.tables.delta.delta_actions import Action, whole_path
from hipslake.tables.delta.delta_log import LogState
from hipslake.tables.delta.delta_statistics import bound_number, time_number, time_text
from hipslake.tables.delta.delta_vectors import vector_of
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_files import StoredFile, opened_parquet
from hipslake.versions.write_id import is_write_id

DATA = "data"
"""The folder of a table's location in which data files of ours lie."""

_NAME_BYTES = 255  # of a folder, on disks
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"  # as others name the folder of nulls
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # of the years 1 to 9999
_DAY = 86_400_000_000  # microseconds


class WrittenDeltaFile(Frozen):
    """A data file as the task that wrote it describes it; small and plain, so that it travels.

    Attributes
    ----------
    path : str
        As the log has it: relative to the table's location, and encoded as in URIs.
    partition : dict of str to str or None
        The values of the partition columns, as the log has them.
    rows, bytes : int
    stats : str
        As the log has them.
    """

    path: str
    partition: dict[str, str | None]
    rows: int
    bytes: int
    stats: str

    def described(self, location: str) -> NewFile:
        """The file as the table protocol has it."""
        whole = whole_path(location, self.path)
        return NewFile(path=whole, rows=self.rows, bytes=self.bytes, details=self.model_dump_json())

    def add(self, milliseconds: int, *, data_change: bool) -> Action:
        """The action that makes it part of a table."""
        return {
            "add": {
                "path": self.path,
                "partitionValues": self.partition,
                "size": self.bytes,
                "modificationTime": milliseconds,
                "dataChange": data_change,
                "stats": self.stats,
            }
        }


def check_partition_types(schema: pa.Schema, columns: Sequence[str]) -> None:
    """Look whether a table can be partitioned by some columns; raise `SpecError`.

    Delta keeps partition values as texts. Those of real numbers and of bytes are not the same for all
    engines.
    """
    for name in columns:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_binary(kind):
            raise SpecError(
                f"partition: column {name!r} is of type {kind}; a Delta table is partitioned by whole "
                "numbers, decimals, strings, dates, times or truths"
            )
    if set(schema.names) == set(columns):
        raise SpecError("partition: a Delta table has a column that it is not partitioned by; leave one out")


def partition_texts(
    schema: pa.Schema, columns: Sequence[str], values: Sequence[Any]
) -> dict[str, str | None]:
    """Partition values as the log has them.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the table.
    columns : sequence of str
        Those that it is partitioned by.
    values : sequence
        One per column; times as numbers.

    Raises
    ------
    InputError
        A value is an empty text, which Delta reads as null.
    PlanError
        A time is before the year 1 or after 9999.
    """
    return {
        name: _text(name, schema.field(name).type, value) for name, value in zip(columns, values, strict=True)
    }


def _text(column: str, kind: pa.DataType, value: Any) -> str | None:
    if value is None:
        return None
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        if not _FIRST_DAY <= (value if pa.types.is_date32(kind) else value // _DAY) <= _LAST_DAY:
            raise PlanError(
                f"column {column!r}: a time before the year 1 or after 9999 is a partition value, and Delta "
                "has no text for it; partition by another column, or leave such rows out"
            )
        text = time_text(value, kind)
        return text if pa.types.is_date32(kind) or kind.tz else text.replace("T", " ")
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    if value == "":
        raise InputError(
            f"column {column!r}: an empty text is a partition value, and Delta does not tell it from null; "
            "filter such rows out, or partition by another column"
        )
    return str(value)


def folder_of(texts: Mapping[str, str | None]) -> str:
    """The folders of a partition, `column=value`, as most engines name them; some read the values there.

    Raises
    ------
    InputError
        A value is too long for the name of a folder.
    """
    parts = []
    for name, text in texts.items():
        value = _NULL_FOLDER if text is None else quote(text, safe=" ")
        parts.append(f"{quote(name, safe=' ')}={value}")
        if len(parts[-1]) > _NAME_BYTES:
            raise InputError(
                f"column {name!r}: a partition value of {len(text or '')} characters is too long for a name "
                "of a folder; partition by another column"
            )
    return "/".join(parts)


def partition_value(kind: pa.DataType, text: str | None, where: str) -> Any:
    """The inverse of `partition_texts`, of one value.

    Raises
    ------
    CorruptFileError
        It is no value of that type.
    """
    if not text:
        return None
    try:
        if pa.types.is_boolean(kind):
            return {"true": True, "false": False}[text.lower()]
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_floating(kind):
            return float(text)
        if pa.types.is_decimal(kind):
            return Decimal(text)
        if pa.types.is_string(kind):
            return text
        if pa.types.is_binary(kind):
            return text.encode("latin-1")
        if (number := time_number(text, kind)) is not None:
            return number
    except (ValueError, KeyError, ArithmeticError):
        pass
    raise CorruptFileError(f"{where}: {text!r} is a partition value of this file, and no {kind}")


def write_of_path(path: str) -> str:
    """The write of ours whose folder a file lies in, by its path in the log; "" if there is none."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == DATA and is_write_id(parts[1]) else ""


@dataclass(frozen=True, eq=False)
class DeltaFile:
    """A data file of a version.

    Attributes
    ----------
    entry : dict
        Its `add`.
    state : LogState
        The version.
    """

    entry: Action
    state: LogState
    is_current: bool = True
    sort_order: int | None = None

    @property
    def path(self) -> str:
        return whole_path(self.state.location, self.entry["path"])

    @property
    def rows(self) -> int:
        told = self._stats.get("numRecords")
        return self._rows_in_footer if told is None else int(told)

    @property
    def bytes(self) -> int:
        return int(self.entry["size"])

    @cached_property
    def stored(self) -> StoredFile:
        """What tasks need to read it.

        Raises
        ------
        CorruptFileError
            Its deletion vector is told in no form that is known.
        """
        constants = tuple(zip(self.state.partition_columns, self.partition, strict=True))
        vector = vector_of(self.entry, self.state.location)
        return StoredFile(self.path, constants, () if vector is None else (vector,))

    @cached_property
    def partition(self) -> tuple[Any, ...]:
        texts = self.entry.get("partitionValues") or {}
        return tuple(
            partition_value(self.state.schema.field(name).type, texts.get(name), self.path)
            for name in self.state.partition_columns
        )

    @property
    def scope(self) -> str:
        return partition_name(self.entry)

    def bounds(self, column: str) -> tuple[Any, Any] | None:
        if column in self.state.partition_columns:
            value = self.partition[self.state.partition_columns.index(column)]
            return None if value is None else (value, value)
        kind = self.state.schema.field(column).type
        low = (self._stats.get("minValues") or {}).get(column)
        high = (self._stats.get("maxValues") or {}).get(column)
        if low is None or high is None:
            return None
        low, high = bound_number(low, kind, upper=False), bound_number(high, kind, upper=True)
        return None if low is None or high is None else (low, high)

    def null_count(self, column: str) -> int | None:
        if column in self.state.partition_columns:
            value = self.partition[self.state.partition_columns.index(column)]
            return self.rows if value is None else 0
        told = (self._stats.get("nullCount") or {}).get(column)
        if not isinstance(told, int) or (self.entry.get("deletionVector") and 0 < told < self.rows):
            return None  # beside a vector a count may be of rows that are deleted
        return told

    @cached_property
    def _stats(self) -> dict[str, Any]:
        try:
            told = plain_json(self.entry.get("stats") or "{}")
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}

    @cached_property
    def _rows_in_footer(self) -> int:
        gone = StorageError(f"{self.path}: the table names this file, but it does not exist; try again")
        with opened_parquet(self.path, gone=gone) as (_, parquet):
            return int(parquet.metadata.num_rows)


def live_delta_files(state: LogState) -> list[DeltaFile]:
    """The data files of a version, by their paths."""
    return [DeltaFile(state.files[path], state) for path in sorted(state.files)]


def partition_name(entry: Action) -> str:
    """What tells the partition of a file from others."""
    return json.dumps(entry.get("partitionValues") or {}, sort_keys=True)
