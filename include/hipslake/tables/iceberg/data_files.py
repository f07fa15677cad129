"""Data files of tables: those that a snapshot has, with their bounds, and those that tasks have written."""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, PrimitiveType

from hipslake.errors import PlanError
from hipslake.specs.base import Frozen
from hipslake.tables.deleted_rows import DeleteFile
from hipslake.tables.iceberg.metadata_files import entries_of, manifests_of
from hipslake.tables.iceberg.table_partitioning import given_up
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_files import StoredFile

Scope = tuple[int, tuple[Any, ...]]
"""The id of a partition spec, and partition values."""


def scope_of(file: DataFile) -> Scope:
    """The partition of a file; of real numbers their bits, so that NaN is itself, and -0.0 is not 0.0."""
    values = (file.partition[at] for at in range(len(file.partition)))
    return file.spec_id, tuple(_bits(value) if isinstance(value, float) else value for value in values)


def _bits(value: float) -> bytes:
    return struct.pack("<d", math.nan if math.isnan(value) else value)


class WrittenFile(Frozen):
    """A data file as the task that wrote it describes it; small and plain, so that it travels.

    `partition` holds one value per field, in Iceberg's single-value form and hexadecimal; so do the
    bounds, by field id.
    """

    path: str
    partition: tuple[str | None, ...] = ()
    spec_id: int
    sort_order_id: int | None
    rows: int
    bytes: int
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, str]
    upper_bounds: dict[int, str]
    split_offsets: tuple[int, ...]

    def described(self) -> NewFile:
        """The file as the table protocol has it."""
        return NewFile(path=self.path, rows=self.rows, bytes=self.bytes, details=self.model_dump_json())

    def to_data_file(self, table: Table) -> DataFile:
        """The entry of a table's manifest."""
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=Record(*_decoded(self.partition, table.specs()[self.spec_id], table.schema())),
            record_count=self.rows,
            file_size_in_bytes=self.bytes,
            column_sizes=self.column_sizes,
            value_counts=self.value_counts,
            null_value_counts=self.null_value_counts,
            nan_value_counts=self.nan_value_counts,
            lower_bounds=_from_hex(self.lower_bounds),
            upper_bounds=_from_hex(self.upper_bounds),
            split_offsets=list(self.split_offsets),
            sort_order_id=self.sort_order_id,
            equality_ids=None,
            key_metadata=None,
        )
        file.spec_id = self.spec_id
        return file


def encoded_partition(values: Iterable[Any], types: Iterable[IcebergType]) -> tuple[str | None, ...]:
    """Partition values as `WrittenFile` has them."""
    return tuple(
        None if value is None else to_bytes(kind, value).hex()  # type: ignore[arg-type]
        for value, kind in zip(values, types, strict=True)
    )


def partition_types(spec: PartitionSpec, schema: Schema) -> list[IcebergType]:
    """The types of the partition values of a spec."""
    return [field.field_type for field in spec.partition_type(schema).fields]


def _decoded(values: tuple[str | None, ...], spec: PartitionSpec, schema: Schema) -> list[Any]:
    types = partition_types(spec, schema)
    return [
        None if value is None else from_bytes(kind, bytes.fromhex(value))  # type: ignore[arg-type]
        for value, kind in zip(values, types, strict=True)
    ]


def _from_hex(bounds_by_id: dict[int, str]) -> dict[int, bytes]:
    return {number: bytes.fromhex(value) for number, value in bounds_by_id.items()}


def live_files(table: Table, snapshot: Snapshot | None = None) -> list[DataFile]:
    """The data files of a snapshot of a table (by default the current one), in the order of its manifests."""
    snapshot = snapshot or table.current_snapshot()
    if snapshot is None:
        return []
    found = []
    for manifest in manifests_of(table, snapshot):
        if manifest.content == ManifestContent.DATA:
            entries = entries_of(table, manifest)
            found += [entry.data_file for entry in entries]
    return found


def has_delete_files(table: Table, snapshot: Snapshot | None = None) -> bool:
    """Whether delete files take rows out of data files of a snapshot (by default the current one)."""
    snapshot = snapshot or table.current_snapshot()
    return snapshot is not None and any(
        manifest.content == ManifestContent.DELETES
        and (manifest.has_added_files() or manifest.has_existing_files())
        for manifest in manifests_of(table, snapshot)
    )


def check_no_delete_files(table: Table, why: str, snapshot: Snapshot | None = None) -> None:
    """Look that no rows are taken out of data files by delete files.

    Parameters
    ----------
    table : Table
    why : str
        What cannot be done if there are some.
    snapshot : Snapshot, optional
        By default the current one.

    Raises
    ------
    PlanError
        There are some.
    """
    if has_delete_files(table, snapshot):
        raise PlanError(
            f"table {'.'.join(table.name())} has delete files, and it cannot be told which rows "
            f"they take from which sink; {why} needs a table without them: use mode "
            "overwrite-interval or upsert, or replace the interval by hand"
        )


@dataclass(frozen=True, eq=False)
class IcebergFile:
    """A data file of a snapshot."""

    entry: DataFile
    table: Table
    deletes: tuple[DeleteFile, ...] = ()
    """Delete files that apply to it; only of a file that is read as a snapshot has it."""

    @property
    def path(self) -> str:
        return self.entry.file_path

    @property
    def rows(self) -> int:
        return self.entry.record_count

    @property
    def bytes(self) -> int:
        return self.entry.file_size_in_bytes

    @property
    def stored(self) -> StoredFile:
        """What tasks need to read it; files that count the values of a column have it.

        Raises
        ------
        PlanError
            It is no Parquet file.
        """
        file = self.entry
        if file.file_format != FileFormat.PARQUET:
            raise PlanError(
                f"table {'.'.join(self.table.name())}: {file.file_path} is an {file.file_format.value} file, "
                "and only Parquet is read; have the engine that wrote it rewrite it (in Spark: set "
                "write.format.default to parquet, then CALL system.rewrite_data_files)"
            )
        counted = file.value_counts or {}
        spec = self.table.specs()[file.spec_id]
        return StoredFile(
            file.file_path,
            tuple(
                (field.source_id, file.partition[at])
                for at, field in enumerate(spec.fields)
                if str(field.transform) == "identity" and field.source_id not in counted
            ),
            self.deletes,
        )

    @property
    def scope(self) -> Hashable:
        return scope_of(self.entry)

    @property
    def is_current(self) -> bool:
        return bool(self.entry.spec_id == self.table.spec().spec_id)

    @property
    def partition(self) -> tuple[Any, ...]:
        gone = given_up(self.table.spec(), self.table.schema())
        return tuple(self.entry.partition[at] for at in range(len(self.entry.partition)) if at not in gone)

    @property
    def sort_order(self) -> int | None:
        number = self.entry.sort_order_id
        return number if number in self.table.sort_orders() else None

    def bounds(self, column: str) -> tuple[Any, Any] | None:
        """Bounds of long strings are cut, and stay bounds."""
        field = self.table.schema().find_field(column)
        lower = (self.entry.lower_bounds or {}).get(field.field_id)
        upper = (self.entry.upper_bounds or {}).get(field.field_id)
        kind = field.field_type
        if lower is None or upper is None or not isinstance(kind, PrimitiveType):
            return None
        return from_bytes(kind, lower), from_bytes(kind, upper)

    def null_count(self, column: str) -> int | None:
        return (self.entry.null_value_counts or {}).get(self.table.schema().find_field(column).field_id)
