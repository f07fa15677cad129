"""Which delete files of a snapshot apply to which of its data files, by the rules of Iceberg's format.

A position delete applies to data files that came with it or before, an equality delete to those that came
before it: sequence numbers tell. Both apply in their own partition, of their own partition spec; an equality
delete of a spec without partitions applies everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from hipslake.errors import CorruptFileError, PlanError
from hipslake.tables.deleted_rows import PATH_FIELD, DeleteFile, ValueColumn, position_paths
from hipslake.tables.iceberg.data_files import Scope, WrittenFile, has_delete_files, scope_of
from hipslake.tables.iceberg.metadata_files import entries_of, manifests_of
from hipslake.tables.iceberg.schemas import arrow_schema
from hipslake.tables.stored_files import read_delete_file

_PATH_ID = int((PATH_FIELD.metadata or {})[b"PARQUET:field_id"])
_ORDERED = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType, StringType)
"""Types whose bounds hold all values that are not null, in the order in which Python has them."""


class LiveDelete(NamedTuple):
    """A delete file of a snapshot.

    Attributes
    ----------
    entry : DataFile
    sequence : int
        Its data sequence number.
    everywhere : bool
        Whether it applies to all partitions.
    """

    entry: DataFile
    sequence: int
    everywhere: bool

    @property
    def by_position(self) -> bool:
        """Whether it deletes by position."""
        return self.entry.content == DataFileContent.POSITION_DELETES

    def may_name(self, path: str) -> bool:
        """Whether a position delete may be of a data file, by its bounds."""
        low, high = (
            (each or {}).get(_PATH_ID) for each in (self.entry.lower_bounds, self.entry.upper_bounds)
        )
        name = path.encode()
        return (low is None or low <= name) and (high is None or name <= high)

    def applies_to(self, scope: Scope, sequence: int) -> bool:
        """Whether it may apply to a data file of a partition, by its data sequence number."""
        in_time = sequence <= self.sequence if self.by_position else sequence < self.sequence
        return in_time and (self.everywhere or scope == scope_of(self.entry))


class _Extent(NamedTuple):
    """The values of a column of a file lie within bounds; and whether there may be nulls."""

    low: Any
    high: Any
    has_nulls: bool


class LiveFiles(NamedTuple):
    """The files of a snapshot: data files with their data sequence numbers, and delete files."""

    data: list[tuple[DataFile, int]]
    deletes: list[LiveDelete]


def files_of_snapshot(table: Table, snapshot: Snapshot | None = None) -> LiveFiles:
    """The files of a snapshot of a table (by default the current one), in the order of its manifests."""
    snapshot = snapshot or table.current_snapshot()
    data: list[tuple[DataFile, int]] = []
    deletes: list[LiveDelete] = []
    for manifest in manifests_of(table, snapshot) if snapshot is not None else ():
        if manifest.content == ManifestContent.DATA:
            data += [(entry.data_file, _sequence(entry)) for entry in entries_of(table, manifest)]
        elif manifest.has_added_files() or manifest.has_existing_files():
            spec = table.specs()[manifest.partition_spec_id]
            deletes += [
                LiveDelete(entry.data_file, _sequence(entry), _is_global(entry.data_file, spec))
                for entry in entries_of(table, manifest)
            ]
    return LiveFiles(data, deletes)


def _sequence(entry: ManifestEntry) -> int:
    return entry.sequence_number or 0


def _is_global(file: DataFile, spec: PartitionSpec) -> bool:
    partitioned = any(str(field.transform) != "void" for field in spec.fields)
    return file.content == DataFileContent.EQUALITY_DELETES and not partitioned


class DeleteIndex:
    """Finds the delete files of each data file.

    Parameters
    ----------
    table : pyiceberg.table.Table
    deletes : iterable of LiveDelete
    """

    def __init__(self, table: Table, deletes: Iterable[LiveDelete]) -> None:
        self._table = table
        self._everywhere: list[LiveDelete] = []
        self._by_scope: dict[Scope, list[LiveDelete]] = defaultdict(list)
        for each in deletes:
            (self._everywhere if each.everywhere else self._by_scope[scope_of(each.entry)]).append(each)
        self._known: dict[str, DeleteFile] = {}
        self._extents: dict[str, dict[int, _Extent]] = {}

    def of(self, file: DataFile, sequence: int) -> tuple[DeleteFile, ...]:
        """The delete files that apply to a data file.

        Raises
        ------
        PlanError
            One of them is of a kind that is not read.
        """
        return tuple(self._as_stored(each) for each in self.entries_of(file, sequence))

    def entries_of(self, file: DataFile, sequence: int) -> list[LiveDelete]:
        """The same, as the snapshot has them, but for those whose bounds tell that they take no row of it."""
        if not (self._everywhere or self._by_scope):
            return []
        scope = scope_of(file)
        found = [*self._everywhere, *self._by_scope.get(scope, ())]
        return [
            each
            for each in found
            if each.applies_to(scope, sequence)
            and (each.may_name(file.file_path) if each.by_position else self._may_meet(each.entry, file))
        ]

    def _may_meet(self, deletes: DataFile, file: DataFile) -> bool:
        """Whether the values of an equality delete lie within the bounds of a data file."""
        path = deletes.file_path
        if path not in self._extents:
            self._extents[path] = self._extents_of(deletes, deletes.equality_ids or ())
        for number, mine in self._extents[path].items():
            other = _extent(self._fields[number], file)
            both_null = mine.has_nulls and (other is None or other.has_nulls)
            if other is not None and not both_null and (mine.high < other.low or other.high < mine.low):
                return False
        return True

    def _extents_of(self, file: DataFile, numbers: Iterable[int]) -> dict[int, _Extent]:
        found = {number: _extent(self._fields[number], file) for number in numbers if number in self._fields}
        return {number: extent for number, extent in found.items() if extent is not None}

    def _as_stored(self, live: LiveDelete) -> DeleteFile:
        file = live.entry
        if file.file_path not in self._known:
            if file.file_format != FileFormat.PARQUET:
                raise PlanError(
                    f"table {self._name}: {file.file_path} is a delete file of format "
                    f"{file.file_format.value}, and only Parquet is read; have the engine that wrote it "
                    "merge it (in Spark: CALL system.rewrite_data_files with delete-file-threshold 1)"
                )
            columns = () if live.by_position else self._columns(file)
            self._known[file.file_path] = DeleteFile(file.file_path, columns)
        return self._known[file.file_path]

    def _columns(self, file: DataFile) -> tuple[ValueColumn, ...]:
        """The columns of an equality delete, as the newest schema that has each of them says."""
        if not file.equality_ids:
            raise CorruptFileError(
                f"table {self._name}: {file.file_path} deletes by the values of columns, and the table does "
                "not say of which; have the engine that wrote it merge its deletes"
            )
        lacking = [number for number in file.equality_ids if number not in self._arrow]
        if lacking:
            raise PlanError(
                f"table {self._name}: {file.file_path} deletes by the values of field {lacking[0]}, which is "
                "no column of the table, or a nested one or a part of it, and is not read; have the engine "
                "that wrote it merge its deletes"
            )
        return tuple(ValueColumn(number, self._arrow[number]) for number in sorted(set(file.equality_ids)))

    @property
    def _name(self) -> str:
        return ".".join(self._table.name())

    @cached_property
    def _schemas(self) -> list[Schema]:
        present = self._table.schema()
        older = sorted(self._table.schemas().values(), key=lambda schema: -schema.schema_id)
        return [*(each for each in reversed(older) if each.schema_id != present.schema_id), present]

    @cached_property
    def _fields(self) -> Mapping[int, NestedField]:
        return {field.field_id: field for schema in self._schemas for field in schema.fields}

    @cached_property
    def _arrow(self) -> Mapping[int, pa.Field]:
        """Columns that values can be compared of, by their ids; of dropped ones as they were last."""
        found: dict[int, pa.Field] = {}
        for schema in self._schemas:
            for field, stored in zip(schema.fields, arrow_schema(schema), strict=True):
                if not pa.types.is_nested(stored.type):
                    found[field.field_id] = stored.with_nullable(True)
        return found


def _extent(field: NestedField, file: DataFile) -> _Extent | None:
    """The extent of a column in a file; None if it is not known."""
    low, high = ((each or {}).get(field.field_id) for each in (file.lower_bounds, file.upper_bounds))
    kind = field.field_type
    if low is None or high is None or not isinstance(kind, PrimitiveType) or not isinstance(kind, _ORDERED):
        return None
    nulls = (file.null_value_counts or {}).get(field.field_id)
    return _Extent(from_bytes(kind, low), from_bytes(kind, high), nulls != 0)


def deletes_by_path(table: Table, found: LiveFiles) -> dict[str, tuple[DeleteFile, ...]]:
    """The delete files that apply to each data file, by its path.

    Of those that name positions it is looked up which files they name: one that names few of a partition may
    have bounds that hold most of it.

    Raises
    ------
    PlanError
        One of them is of a kind that is not read.
    CorruptFileError
        One of them is gone or damaged.
    """
    index = DeleteIndex(table, found.deletes)
    named: dict[str, set[str]] = {}

    def takes_rows(deletes: DeleteFile, path: str) -> bool:
        if not deletes.by_position:
            return True
        if deletes.path not in named:
            named[deletes.path] = position_paths(deletes.path, read_delete_file)
        return path in named[deletes.path]

    return {
        file.file_path: tuple(each for each in index.of(file, sequence) if takes_rows(each, file.file_path))
        for file, sequence in found.data
    }


def unneeded_deletes(
    table: Table,
    removed: Sequence[DataFile],
    added: Sequence[WrittenFile],
    sequence: int,
    *,
    everywhere: bool = False,
) -> list[DataFile]:
    """The delete files of a table that no data file needs, once some are replaced.

    Parameters
    ----------
    table : pyiceberg.table.Table
        As it is before.
    removed : sequence of DataFile
    added : sequence of WrittenFile
    sequence : int
        Their data sequence number.
    everywhere : bool
        Look up which files are named by all that name positions, and not only by those that may name a file
        which goes; the others are needed if their bounds hold the path of a file that stays.
    """
    if not has_delete_files(table):
        return []
    found = files_of_snapshot(table)
    gone = {file.file_path for file in removed}
    index = DeleteIndex(table, found.deletes)
    stay = [(file, since) for file, since in found.data if file.file_path not in gone]
    stay += [(file.to_data_file(table), sequence) for file in added]
    going = [(file, since) for file, since in found.data if file.file_path in gone]
    needed = _deletes_of(index, stay)
    names = {file.file_path for file, _ in stay}
    looked_up = needed if everywhere else needed & _deletes_of(index, going)
    needed -= {
        each.entry.file_path
        for each in found.deletes
        if each.by_position
        and each.entry.file_path in looked_up
        and position_paths(each.entry.file_path, read_delete_file).isdisjoint(names)
    }
    return [each.entry for each in found.deletes if each.entry.file_path not in needed]


def _deletes_of(index: DeleteIndex, files: Iterable[tuple[DataFile, int]]) -> set[str]:
    """The paths of the delete files that may take rows of some data files."""
    return {each.entry.file_path for file, since in files for each in index.entries_of(file, since)}
