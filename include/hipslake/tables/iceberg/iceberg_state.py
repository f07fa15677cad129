"""An Iceberg table at one of its snapshots, and the writes that begin there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property, partial

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from hipslake.clustering.planning import ClusterMark
from hipslake.errors import ConflictError, SpecError, VersionNotFoundError
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.specs.table_writing import RowOperation, WriteMode
from hipslake.tables.clustering_ledger import ClusteringLedger
from hipslake.tables.iceberg.branches import check_tag
from hipslake.tables.iceberg.catalogs import check_writable
from hipslake.tables.iceberg.clustering_properties import clustered_by, stored_ledger
from hipslake.tables.iceberg.commit import TableChange, commit, snapshot_of
from hipslake.tables.iceberg.compaction_access import digest_of, suffix_of
from hipslake.tables.iceberg.data_files import IcebergFile, WrittenFile, check_no_delete_files, live_files
from hipslake.tables.iceberg.delete_index import DeleteIndex, files_of_snapshot, unneeded_deletes
from hipslake.tables.iceberg.delete_writer import DeleteWriter
from hipslake.tables.iceberg.descent import descent_of
from hipslake.tables.iceberg.file_properties import target_file_bytes
from hipslake.tables.iceberg.file_writer import FileWriter
from hipslake.tables.iceberg.schemas import arrow_schema, check_written, with_name_mapping
from hipslake.tables.iceberg.snapshot_history import files_by_write, next_place, summary_of
from hipslake.tables.iceberg.snapshot_statistics import by_name, ndv_of, sketched_ancestors, sketched_change
from hipslake.tables.iceberg.stored_marks import (
    KEY_PROPERTY,
    MARK_PROPERTY,
    PropertyChange,
    StoredMarks,
    mark_properties,
    true_properties,
)
from hipslake.tables.iceberg.table_partitioning import partition_fields
from hipslake.tables.iceberg.write_folders import (
    claim,
    finish,
    heartbeat,
    sweep_held_up,
    writes_of,
)
from hipslake.tables.marks import SinkMark
from hipslake.tables.protocol import (
    CommittedChange,
    CommittedSink,
    Descent,
    LiveFile,
    TableState,
    WriteChange,
)
from hipslake.tables.reading_protocol import TableTotals, TableVersion
from hipslake.tables.stored_files import read_data_file
from hipslake.tables.value_sketches import SketchedVersion
from hipslake.versions.heartbeat import Heartbeat


class IcebergState:
    """A snapshot of a table.

    Parameters
    ----------
    table : pyiceberg.table.Table
    snapshot : Snapshot, optional
        By default the current one.
    branch : str, optional
        That a write is of; the table is as `on_branch` shows it.
    """

    def __init__(self, table: Table, snapshot: Snapshot | None = None, *, branch: str | None = None) -> None:
        self._table = table
        self._branch = branch
        self._snapshot = snapshot or table.current_snapshot()
        self._is_current = snapshot is None

    @property
    def version(self) -> int | None:
        return None if self._snapshot is None else self._snapshot.snapshot_id

    @property
    def location(self) -> str:
        return self._table.location()

    @cached_property
    def schema(self) -> pa.Schema:
        number = None if self._is_current or self._snapshot is None else self._snapshot.schema_id
        schema = self._table.schema() if number is None else self._table.schemas()[number]
        return with_name_mapping(arrow_schema(schema), self._table.properties)

    @property
    def identifier(self) -> tuple[str, ...]:
        schema = self._table.schema()
        names = tuple(sorted(schema.identifier_field_names()))
        columns = {field.name for field in schema.fields}
        return names if columns.issuperset(names) else ()  # not of parts of nested columns

    @cached_property
    def files(self) -> Sequence[LiveFile]:
        found = files_of_snapshot(self._table, self._snapshot)
        index = DeleteIndex(self._table, found.deletes)
        return [IcebergFile(file, self._table, index.of(file, sequence)) for file, sequence in found.data]

    @property
    def column_types(self) -> tuple[tuple[str, str], ...]:
        return tuple((field.name, str(field.field_type)) for field in self._table.schema().fields)

    @property
    def totals(self) -> TableTotals:
        if self._snapshot is None:
            return TableTotals()
        told = summary_of(self._snapshot)
        rows, size, files = _rows_told(told), _number(told, "files-size"), _number(told, "data-files")
        created = datetime.fromtimestamp(self._snapshot.timestamp_ms / 1000, UTC)
        return TableTotals(rows, size, files, created)

    @property
    def told(self) -> Mapping[str, str]:
        return {} if self._snapshot is None else summary_of(self._snapshot)

    @cached_property
    def marks(self) -> StoredMarks:
        return StoredMarks(self._table)

    @property
    def partition(self) -> tuple[PartitionField, ...]:
        return partition_fields(self._table)

    @property
    def clustered_by(self) -> tuple[str, ...]:
        return clustered_by(self._table)

    def clustered_suffix(self, by: ClusterMark) -> str:
        return suffix_of(digest_of(by, self._table.schema()))

    @property
    def clustering(self) -> ClusteringLedger | None:
        return stored_ledger(self._table.properties)

    @property
    def why_no_deletes(self) -> str:
        if self._table.metadata.format_version >= 2:
            return ""
        return "is of Iceberg's format version 1, which has no delete files (version 2 has)"

    @property
    def target_bytes(self) -> int | None:
        return target_file_bytes(self._table)

    def write_mode(self, operation: RowOperation) -> WriteMode | None:
        name = f"write.{operation}.mode"
        if (told := self._table.properties.get(name)) is None:
            return None
        try:
            return WriteMode(told.lower())
        except ValueError:
            raise SpecError(
                f"table {'.'.join(self._table.name())}: its property {name} is {told!r}; it can be "
                f"{' or '.join(WriteMode)}. Mend it, or write 'write' into the spec"
            ) from None

    def made_by(self, write_ids: Sequence[str]) -> CommittedChange | None:
        for write_id in write_ids:
            if (found := snapshot_of(self._table, write_id)) is not None:
                return CommittedChange(found.snapshot_id, summary_of(found))
        return None

    def versions(self) -> list[TableVersion]:
        found = []
        for snapshot in sorted(self._table.snapshots(), key=lambda each: each.timestamp_ms):
            created = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
            found.append(TableVersion(snapshot.snapshot_id, created, _rows_told(summary_of(snapshot))))
        return found

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        wanted = pa.schema([self.schema.field(name) for name in columns])
        for file in self.files:
            yield pa.Table.from_batches(list(read_data_file(file.stored, self.schema, columns)), wanted)

    def at(self, version: int | str) -> IcebergState:
        if isinstance(version, str):
            refs = self._table.metadata.refs
            if version not in refs:
                raise VersionNotFoundError(
                    f"table {'.'.join(self._table.name())} has no tag or branch {version!r}; it has "
                    f"{', '.join(sorted(refs)) or 'none'}"
                )
            version = refs[version].snapshot_id
        found = self._table.snapshot_by_id(version)
        if found is None:
            raise VersionNotFoundError(
                f"table {'.'.join(self._table.name())} has no snapshot {version}; it may have expired, so "
                "take a newer one"
            )
        return IcebergState(self._table, found)

    def check_tag(self, name: str, key: str) -> None:
        check_tag(self._table, name, key)

    def check_no_delete_files(self, why: str) -> None:
        check_no_delete_files(self._table, why, self._snapshot)

    def files_of(self, mark: SinkMark) -> list[LiveFile]:
        return self._files(files_by_write(self._table, live_files(self._table), mark.write))

    def version_of(self, mark: SinkMark) -> int | None:
        found = snapshot_of(self._table, mark.write)
        return None if found is None else found.snapshot_id

    def descent(self, mark: SinkMark, *, full: bool = False) -> Descent:
        return descent_of(self._table, mark, full=full)

    def sketched(self) -> Iterator[SketchedVersion]:
        for snapshot, found in sketched_ancestors(self._table, self._snapshot):
            yield SketchedVersion(snapshot.snapshot_id, by_name(self._table, found))

    @contextmanager
    def writing(self) -> Iterator[IcebergWrite]:
        check_writable(self._table)
        write_id = claim(self._table)
        try:
            with heartbeat(self._table, write_id) as beating:
                yield IcebergWrite(self._table, write_id, beating, self._branch)
        except ConflictError:
            finish(self._table, write_id, ())  # it was overtaken, and nothing of it stands
            raise

    def _files(self, entries: Sequence[DataFile]) -> list[LiveFile]:
        return [IcebergFile(entry, self._table) for entry in entries]


def _number(summary: Mapping[str, str], name: str) -> int | None:
    told = summary.get(f"total-{name}")
    return None if told is None else int(told)


def _rows_told(summary: Mapping[str, str]) -> int | None:
    """The rows of a snapshot by its summary; None if that does not say, as delete files take some of them."""
    return None if _number(summary, "delete-files") else _number(summary, "records")


def _no_properties(table: Table) -> PropertyChange:
    return PropertyChange({})


class IcebergWrite:
    """A write that began at a snapshot of a table."""

    def __init__(self, table: Table, write_id: str, beating: Heartbeat, branch: str | None = None) -> None:
        self._table = table
        self._branch = branch
        self._beating = beating
        self.write_id = write_id
        self.work = writes_of(table).sub(write_id)

    def writer(self, sort: tuple[SortField, ...], ndv: tuple[str, ...] = ()) -> FileWriter:
        return FileWriter.of(self._table, sort, self.write_id, ndv)

    def deleter(self) -> DeleteWriter:
        return DeleteWriter.of(self._table, self.write_id)

    def commit(
        self, change: WriteChange, check: Callable[[TableState], None], stale_after: float | None = None
    ) -> CommittedSink:
        table, catalog, name = self._table, self._table.catalog, ".".join(self._table.name())
        properties: Callable[[Table], PropertyChange] = true_properties
        if self._branch is not None:  # they are of the whole table, and are set when the branch is published
            properties = _no_properties
        summary = dict(change.told)
        if (mark := change.mark) is not None:
            places = {"earliest": next_place(table), "since": StoredMarks(table).first_of(mark.key)}
            placed = mark.model_copy(update=places)
            if self._branch is None:
                properties = partial(mark_properties, sunk=placed)
            summary[KEY_PROPERTY] = mark.key
            summary[MARK_PROPERTY] = placed.model_dump_json(exclude_defaults=True)

        def checked(now: Table) -> None:
            self._beating.confirm()
            check_written(name, table.schema(), now.schema())
            if change.tag is not None and mark is not None:
                check_tag(now, change.tag, mark.key)
            check(IcebergState(now, branch=self._branch))

        written = [WrittenFile.model_validate_json(file.details) for file in change.added]
        gone = [file.entry for file in change.removed if isinstance(file, IcebergFile)]

        def unneeded(now: Table) -> list[DataFile]:
            return unneeded_deletes(now, gone, written, now.metadata.next_sequence_number()) if gone else []

        of_table = TableChange(
            Operation.OVERWRITE if change.removed or change.deletes else Operation.APPEND,
            self.write_id,
            written,
            gone,
            properties=properties,
            summary=summary,
            unneeded=unneeded,
            deletes=change.deletes,
            branch=self._branch,
            tag=change.tag if self._branch is None else None,
            sketched=sketched_change(
                table, change.added, change.stays, removes=bool(change.removed or change.deletes)
            ),
        )
        committed = commit(catalog, name, of_table, checked)
        kept = [file.path for file in (*change.added, *(each.file for each in change.deletes))]
        finish(committed.table, self.write_id, kept, attempts=committed.attempts)
        swept = sweep_held_up(catalog, committed.table, stale_after)
        ndv = ndv_of(committed.table, committed.snapshot_id)
        return CommittedSink(committed.snapshot_id, committed.attempts, tuple(swept), ndv)
