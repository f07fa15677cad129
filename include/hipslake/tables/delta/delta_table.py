"""A Delta table as `hipslake.tables.protocol` has it: what sinks and vacuums ask of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property

import pyarrow as pa

from hipslake.clustering.planning import ClusterMark
from hipslake.errors import ConflictError, SpecError, VersionNotFoundError
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.specs.table_place import DeltaSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import RowOperation, WriteMode
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.tables.alterations import EvolutionKind, TableAlteration
from hipslake.tables.clustering_ledger import ClusteringLedger
from hipslake.tables.delta.delta_actions import OURS
from hipslake.tables.delta.delta_commit import DeltaChange, commit_delta
from hipslake.tables.delta.delta_compaction import DeltaCompaction, target_bytes_of
from hipslake.tables.delta.delta_descent import ALONE, delta_descent
from hipslake.tables.delta.delta_files import DeltaFile, WrittenDeltaFile, live_delta_files, write_of_path
from hipslake.tables.delta.delta_lineage import Lineage
from hipslake.tables.delta.delta_log import DeltaLog, LogState
from hipslake.tables.delta.delta_marks import APPLICATION, DeltaMarks
from hipslake.tables.delta.delta_origins import is_kept, writes_with_rows_of
from hipslake.tables.delta.delta_protocol import (
    ENABLE_VECTORS,
    check_no_vectors,
    check_readable,
    vectors_asked,
)
from hipslake.tables.delta.delta_shape import (
    check_delta_written,
    lacking_columns,
    partition_fields_of,
    shaped_delta,
)
from hipslake.tables.delta.delta_vacuum import time_of_version, times_of_versions, vacuum_delta
from hipslake.tables.delta.delta_vector_writer import DeltaVectorWriter, marked_files
from hipslake.tables.delta.delta_vectors import deleted_count, still_deletes
from hipslake.tables.delta.delta_writer import DeltaWriter
from hipslake.tables.delta.delta_writes import (
    beating_write,
    claim_delta_write,
    finish_write,
    sweep_after_commit,
    sweep_delta_writes,
    writes_below,
)
from hipslake.tables.marks import SinkMark
from hipslake.tables.protocol import (
    CommittedChange,
    CommittedSink,
    Descent,
    ShapedTable,
    TableState,
    TableVacuumOutcome,
    WriteChange,
)
from hipslake.tables.reading_protocol import TableTotals, TableVersion
from hipslake.tables.stored_files import read_data_file
from hipslake.tables.value_sketches import SketchedVersion
from hipslake.tables.writing_protocol import PositionWriter
from hipslake.versions.heartbeat import Heartbeat

DELTA_TABLES = "delta"
"""The folder of a warehouse in which new Delta tables lie."""


def delta_location(spec: DeltaSpec, warehouse: str, name: str) -> str:
    """The folder of a table, by its namespace and name."""
    root = spec.location or f"{warehouse.rstrip('/')}/{DELTA_TABLES}"
    return "/".join([root.rstrip("/"), *name.split(".")])


class DeltaTable:
    """A Delta table in a folder of its own.

    Parameters
    ----------
    spec : DeltaSpec
    warehouse : str
    name : str
        Namespace and table.
    """

    def __init__(self, spec: DeltaSpec, warehouse: str, name: str) -> None:
        self._name = name
        self._log = DeltaLog(delta_location(spec, warehouse, name))

    def close(self) -> None:
        """Nothing is held open."""

    def now(self) -> DeltaState | None:
        found = self._log.newest()
        if found is None:
            return None
        check_readable(found, self._name)
        return DeltaState(self._log, self._name, found)

    def existing(self) -> DeltaState:
        found = self.now()
        if found is None:
            raise SpecError(f"there is no Delta table {self._name} at {self._log.location}")
        return found

    def shaped(self, spec: TableSpec, stored: pa.Schema) -> ShapedTable:
        state, created, added = shaped_delta(self._log, spec, stored)
        return ShapedTable(DeltaState(self._log, self._name, state), created, _alterations(added))

    def evolve(
        self, spec: TableSpec, stored: pa.Schema | None, *, dry_run: bool = True
    ) -> tuple[TableAlteration, ...]:
        self.existing()  # a sink would make it
        state = self._log.newest()
        if stored is None or state is None:
            return ()
        if dry_run:
            return _alterations(lacking_columns(state, spec, stored))
        return _alterations(shaped_delta(self._log, spec, stored)[2])

    def branch(self) -> None:
        """A Delta table has no branches."""

    def publish(self, head: int, tag_of: Callable[[SinkMark], str | None]) -> bool:
        raise SpecError(f"table {self._name} is a Delta table, which has no branches")

    def is_published(self, version: int) -> bool:
        """Whatever is committed is."""
        return True

    def drop_branch(self) -> None:
        """There is none."""

    def sweep(self, stale_after: float | None = None) -> list[str]:
        return sweep_delta_writes(self._log, stale_after)

    def vacuum(
        self, retention: Retention, *, now: datetime, dry_run: bool = True, orphan_days: float | None = None
    ) -> TableVacuumOutcome:
        return vacuum_delta(
            self._log, self._name, retention, now=now, dry_run=dry_run, orphan_days=orphan_days
        )

    def compaction(self, run: Storage, by: ClusterMark | None = None) -> DeltaCompaction:
        return DeltaCompaction(self._log, self._name, run, by)


def _alterations(added: tuple[str, ...]) -> tuple[TableAlteration, ...]:
    return tuple(TableAlteration(EvolutionKind.ADD, name, f"column {name} is added") for name in added)


class DeltaState:
    """A version of a table.

    Parameters
    ----------
    table : DeltaLog
    name : str
    state : LogState
        The version.
    """

    def __init__(self, table: DeltaLog, name: str, state: LogState) -> None:
        self._log = table
        self._name = name
        self._state = state

    @property
    def version(self) -> int | None:
        return self._state.version

    @property
    def location(self) -> str:
        return self._log.location

    @property
    def schema(self) -> pa.Schema:
        return self._state.schema

    @property
    def identifier(self) -> tuple[str, ...]:
        """Delta tables have none."""
        return ()

    @cached_property
    def files(self) -> list[DeltaFile]:
        return live_delta_files(self._state)

    @property
    def column_types(self) -> tuple[tuple[str, str], ...]:
        return tuple((field.name, str(field.type)) for field in self.schema)

    @property
    def totals(self) -> TableTotals:
        rows = sum(file.rows - deleted_count(file.entry) for file in self.files)
        size = sum(file.bytes for file in self.files)
        return TableTotals(rows, size, len(self.files), time_of_version(self._state))

    @property
    def told(self) -> Mapping[str, str]:
        return self._state.told

    @cached_property
    def marks(self) -> DeltaMarks:
        return DeltaMarks(self._log, self._state)

    @property
    def partition(self) -> tuple[PartitionField, ...]:
        return partition_fields_of(self._state)

    @property
    def clustered_by(self) -> tuple[str, ...]:
        return ()

    @property
    def clustering(self) -> ClusteringLedger | None:
        return None

    def clustered_suffix(self, by: ClusterMark) -> str:
        raise SpecError(f"{self.location}: Delta tables are not kept clustered; leave cluster_by out")

    @property
    def target_bytes(self) -> int | None:
        return target_bytes_of(self._state.configuration, self._name)

    @property
    def why_no_deletes(self) -> str:
        if vectors_asked(self._state.configuration) is False:
            return f"takes no deletion vectors, by its property {ENABLE_VECTORS}"
        return ""

    def write_mode(self, operation: RowOperation) -> WriteMode | None:
        """Merge-on-read, if the table asks for deletion vectors."""
        return WriteMode.MERGE_ON_READ if vectors_asked(self._state.configuration) else None

    def made_by(self, write_ids: Sequence[str]) -> CommittedChange | None:
        lineage = Lineage.of(self._log, self._state.version)
        for write_id in write_ids:
            if (version := lineage.made.get(write_id)) is not None:
                return CommittedChange(version, lineage.infos[version][OURS])
        return None

    def versions(self) -> list[TableVersion]:
        told = times_of_versions(self._log, self._state.version)
        return [TableVersion(version, moment, None) for version, moment in told.items()]

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        wanted = pa.schema([self.schema.field(name) for name in columns])
        for file in self.files:
            yield pa.Table.from_batches(list(read_data_file(file.stored, self.schema, columns)), wanted)

    def at(self, version: int | str) -> DeltaState:
        if isinstance(version, str):
            raise VersionNotFoundError(
                f"table {self._name} is a Delta table, which has no tags and no branches, such as "
                f"{version!r}; give the number of a version"
            )
        found = self._log.at(version)
        check_readable(found, self._name)
        return DeltaState(self._log, self._name, found)

    def check_tag(self, name: str, key: str) -> None:
        raise SpecError(f"table {self._name} is a Delta table, which has no tags, such as {name!r}")

    def check_no_delete_files(self, why: str) -> None:
        check_no_vectors(self._state, self._name, why)

    def files_of(self, mark: SinkMark) -> list[DeltaFile]:
        writes = writes_with_rows_of(self.location, mark.write)
        return [file for file in self.files if _is_of(file, writes)]

    def version_of(self, mark: SinkMark) -> int | None:
        return self.marks.version_of(mark.write)

    def sketched(self) -> Iterator[SketchedVersion]:
        yield from ()

    def descent(self, mark: SinkMark, *, full: bool = False) -> Descent:
        return delta_descent(self._log, self._state, mark, full=full)

    @contextmanager
    def writing(self) -> Iterator[DeltaWrite]:
        write_id = claim_delta_write(self.location)
        try:
            with beating_write(self.location, write_id) as beating:
                yield DeltaWrite(self._log, self._name, self._state, write_id, beating)
        except ConflictError:
            finish_write(self._log, write_id, ())  # it was overtaken, and nothing of it stands
            raise


def _is_of(file: DeltaFile, writes: Collection[str]) -> bool:
    path = file.entry["path"]
    return write_of_path(path) in writes and not is_kept(path)


class DeltaWrite:
    """A write that began at a version of a table."""

    def __init__(
        self, table: DeltaLog, name: str, state: LogState, write_id: str, beating: Heartbeat
    ) -> None:
        self._log = table
        self._name = name
        self._state = state
        self._beating = beating
        self.write_id = write_id
        self.work = writes_below(table.location).sub(write_id)

    def writer(self, sort: tuple[SortField, ...], ndv: tuple[str, ...] = ()) -> DeltaWriter:
        assert not ndv, "the spec of a Delta table has no statistics"
        return DeltaWriter.of(self._state, sort, self.write_id)

    def deleter(self) -> PositionWriter:
        return DeltaVectorWriter.of(self._state, self.write_id)

    def commit(
        self, change: WriteChange, check: Callable[[TableState], None], stale_after: float | None = None
    ) -> CommittedSink:
        assert change.tag is None, "check_tag() lets none pass"
        assert change.stays is None, "the spec of a Delta table has no statistics"
        ours = dict(change.told)
        transactions: dict[str, int] = {}
        if (mark := change.mark) is not None:
            transactions[APPLICATION + mark.key] = DeltaMarks(self._log, self._state).kept(mark)
            ours |= {"key": mark.key, **({ALONE: "true"} if mark.alone else {})}

        def checked(now: LogState) -> None:
            self._beating.confirm()
            check_delta_written(self._name, self._state, now)
            self._check_no_row_came_back(now)
            check(DeltaState(self._log, self._name, now))

        written = [WrittenDeltaFile.model_validate_json(file.details) for file in change.added]
        marked, vector_files = marked_files(change.deletes)
        of_log = DeltaChange(
            self.write_id,
            "WRITE" if mark is not None else "DELETE",
            {"mode": "Overwrite" if change.removed or marked else "Append"} if mark is not None else {},
            written,
            [file for file in change.removed if isinstance(file, DeltaFile)],
            transactions,
            ours,
            marked=marked,
        )
        committed = commit_delta(self._log, self._name, of_log, checked)
        finish_write(self._log, self.write_id, [*(file.path for file in written), *vector_files])
        swept = sweep_after_commit(self._log, stale_after)
        return CommittedSink(committed.version, committed.attempts, tuple(swept))

    def _check_no_row_came_back(self, now: LogState) -> None:
        """Look that others have not taken back what a deletion vector of a file deleted as it was read."""
        for path, entry in self._state.files.items():
            standing = now.files.get(path)
            if standing is not None and not still_deletes(entry, standing, self._log.location):
                raise ConflictError(
                    f"table {self._name} was changed by another writer: other rows of {path} are deleted now"
                )
