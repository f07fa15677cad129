"""An Iceberg table: its files are replaced by others in one snapshot."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from hipslake.clustering.planning import SORTED, ClusterMark, TableFile
from hipslake.errors import ConflictError, PlanError, SpecError
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.tables.clustering_ledger import ClusteringPoint, CountedLedger
from hipslake.tables.compaction_protocol import (
    ColumnBounds,
    CommittedExchanges,
    FileExchange,
    MergedManifests,
)
from hipslake.tables.deleted_rows import DeleteFile, count_by_position
from hipslake.tables.iceberg.catalogs import check_writable, open_table
from hipslake.tables.iceberg.clustering_properties import LEDGER, begin_ledger, clustered_by, ledger_of
from hipslake.tables.iceberg.commit import TableChange, commit, snapshot_of
from hipslake.tables.iceberg.compaction_access import IcebergAccess, mark_of_name
from hipslake.tables.iceberg.data_files import (
    IcebergFile,
    WrittenFile,
    live_files,
    partition_types,
)
from hipslake.tables.iceberg.delete_index import (
    LiveFiles,
    deletes_by_path,
    files_of_snapshot,
    unneeded_deletes,
)
from hipslake.tables.iceberg.file_properties import target_file_bytes
from hipslake.tables.iceberg.file_writer import FileWriter
from hipslake.tables.iceberg.manifest_merging import merge_manifests
from hipslake.tables.iceberg.partition_columns import partition_column
from hipslake.tables.iceberg.schemas import arrow_schema, with_name_mapping
from hipslake.tables.iceberg.snapshot_history import REWRITTEN, forgotten_origins, origin, write_of
from hipslake.tables.iceberg.stored_marks import PropertyChange, true_properties
from hipslake.tables.iceberg.table_partitioning import partition_fields, sort_fields
from hipslake.tables.iceberg.write_folders import (
    claim,
    finish,
    heartbeat,
    sweep_held_up,
    sweep_writes,
    writes_of,
)
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_files import read_delete_file
from hipslake.versions.heartbeat import Heartbeat

log = logging.getLogger(__name__)

WRITES_OF_RUN = "compact_table/writes.json"
"""In the run folder: the ids of the writes of all attempts that were the last of their attempt."""

EARLIER_WRITES = "compact_table/earlier_writes.json"
"""In the run folder: the ids of those that others were to follow."""


class IcebergCompaction:
    """A table at its newest snapshot.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    name : str
    run : Storage
        The run folder, which remembers the writes of all attempts.
    by : ClusterMark, optional
        What its rows are clustered by; without columns, by what the table says: by a sort order, that of
        the table. Without it, files that are written are sorted as the table says.

    Raises
    ------
    SpecError
        There is no such table or catalog; or it has no sort order that rows can be brought into, or does not
        say what it is clustered by.
    PlanError
        It has delete files of a kind that is not read.
    """

    left_out: tuple[str, ...] = ()

    def __init__(self, catalog: Catalog, name: str, run: Storage, by: ClusterMark | None = None) -> None:
        self._run = run
        self._name = name
        self.name = f"table {name}"
        self._catalog = catalog
        for path in sweep_writes(self._catalog, name):
            log.info("Table %s: removed %s, which a dead write had left.", name, path)
        self._table: Table = open_table(self._catalog, name)
        check_writable(self._table)
        snapshot = self._table.current_snapshot()
        self._sequence = 0 if snapshot is None else snapshot.sequence_number or 0
        self.by = self._resolved(by)

    def _resolved(self, by: ClusterMark | None) -> ClusterMark | None:
        """What rows are clustered by, with what the table says where no columns are named."""
        if by is None or by.columns:
            return by
        if by.curve != SORTED:
            if not (columns := clustered_by(self._table)):
                raise SpecError(
                    f"table {self._name} does not say what it is clustered by; name it: 'columns: [...]' in "
                    "this spec, or 'cluster_by: [...]' in that of its sink"
                )
            return ClusterMark(by.curve, columns, by.group)
        fields = sort_fields(self._table)
        if not fields:
            order = "has no sort order" if fields is not None else "has a sort order that cannot be made here"
            raise SpecError(
                f"table {self._name} {order} ({self._table.sort_order()}); name in the spec what to sort "
                "by, as 'sort: [...]'"
            )
        return ClusterMark(SORTED, tuple(str(field) for field in fields), by.group)

    @cached_property
    def schema(self) -> pa.Schema:
        return with_name_mapping(arrow_schema(self._table.schema()), self._table.properties)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        schema = self._table.schema()
        return tuple(
            schema.find_column_name(field.source_id) or ""
            for field in self._table.spec().fields
            if str(field.transform) == "identity"
        )

    @property
    def access(self) -> IcebergAccess:
        return self._access("")

    @cached_property
    def files(self) -> tuple[TableFile, ...]:
        return tuple(
            TableFile(
                file.file_path,
                file.record_count,
                file.file_size_in_bytes,
                _partition_name(file),
                mark_of_name(file.file_path, self.by, self._table.schema()),
                len(self._deletes[file.file_path]),
                file.spec_id != self._table.spec().spec_id,
                count_by_position(file.file_path, self._deletes[file.file_path], read_delete_file),
            )
            for file in (*self._live, *self._outdated)
        )

    @cached_property
    def unneeded_deletes(self) -> int:
        return len(unneeded_deletes(self._table, (), (), 0, everywhere=True))

    @property
    def target_bytes(self) -> int | None:
        return target_file_bytes(self._table)

    @property
    def partition_fields(self) -> tuple[PartitionField, ...] | None:
        try:
            return partition_fields(self._table)
        except SpecError as error:
            log.warning("%s", error)
            return None

    @cached_property
    def partition_values(self) -> pa.Table:
        spec = self._table.spec()
        kinds = partition_types(spec, self._table.schema())
        found = {}
        for at, (field, kind) in enumerate(zip(spec.fields, kinds, strict=True)):
            values = [file.partition[at] for file in self._live]
            found[field.name] = partition_column(values, str(field.transform), kind)
        return pa.table(found)

    def bounds(self, column: str, files: Sequence[TableFile | NewFile]) -> ColumnBounds:
        known = {file.file_path: file for file in self._live}
        found = ColumnBounds([], [], [])
        for file in files:
            entry = (
                known[file.path]
                if isinstance(file, TableFile)
                else WrittenFile.model_validate_json(file.details).to_data_file(self._table)
            )
            stored = IcebergFile(entry, self._table)
            low, high = stored.bounds(column) or (None, None)
            found.low.append(low)
            found.high.append(high)
            found.empty.append(low is None and stored.null_count(column) == file.rows)
        return found

    def begin_clustering(self) -> None:
        assert self.by is not None, "of a table that is clustered"
        begin_ledger(self._catalog, self._name, self._kept(self._table).ledger)

    def kept_clustering(self) -> CountedLedger:
        return self._kept(self._table)

    def _kept(self, table: Table) -> CountedLedger:
        assert self.by is not None, "of a table that is clustered"
        return ledger_of(table, self.by, self._found.data, self._sequence)

    def close(self) -> None:
        self._catalog.close()

    def finished(self) -> str | None:
        for write_id in self._writes(WRITES_OF_RUN):
            snapshot = snapshot_of(self._table, write_id)
            if snapshot is not None:
                return str(snapshot.snapshot_id)
        return None

    def merge_manifests(self, *, dry_run: bool) -> MergedManifests:
        return merge_manifests(self._catalog, open_table(self._catalog, self._name), dry_run=dry_run)

    @contextmanager
    def rewriting(self, last: bool = True) -> Iterator[IcebergRewrite]:
        write_id = claim(self._table)
        noted = WRITES_OF_RUN if last else EARLIER_WRITES
        self._run.write(noted, json.dumps([*self._writes(noted), write_id]).encode())
        rewrite: IcebergRewrite | None = None
        try:
            with heartbeat(self._table, write_id) as beating:
                rewrite = IcebergRewrite(self, write_id, beating)
                yield rewrite
        except BaseException as error:
            # Tasks of a job that failed may still write; and once the catalog was asked, a snapshot may name
            # what was written, unless we were told no. Then a sweep looks what stands, when the heartbeat has
            # been silent for long enough.
            if rewrite is None or isinstance(error, ConflictError | PlanError):
                finish(self._table, write_id, [])
            raise

    @cached_property
    def _live(self) -> list[DataFile]:
        """Files of the present partition spec; those of older ones cannot be merged with them."""
        present = self._table.spec().spec_id
        return [file for file in self._all if file.spec_id == present]

    @cached_property
    def _outdated(self) -> list[DataFile]:
        """Parquet files of older partition specs; others stay as they are."""
        present = self._table.spec().spec_id
        older = [file for file in self._all if file.spec_id != present]
        return [file for file in older if file.file_format == FileFormat.PARQUET]

    @cached_property
    def _all(self) -> list[DataFile]:
        """All data files but those that this run has written, as it was interrupted between two commits."""
        earlier = {write_id for write_id in self._writes(EARLIER_WRITES) if write_id}
        return [file for file, _ in self._found.data if write_of(file) not in earlier]

    @cached_property
    def _found(self) -> LiveFiles:
        return files_of_snapshot(self._table)

    @cached_property
    def _deletes(self) -> dict[str, tuple[DeleteFile, ...]]:
        """By the path of a data file, what applies to it."""
        return deletes_by_path(self._table, self._found)

    def _access(self, write_id: str, added: Collection[tuple[Any, ...]] = ()) -> IcebergAccess:
        partitions = {_partition_name(file): _partition_of(file) for file in self._live}
        partitions |= {repr(values): values for values in added}
        writer = FileWriter.of(self._table, self.sort_fields, write_id)
        read = (*self._live, *self._outdated)
        stored = (IcebergFile(file, self._table, self._deletes[file.file_path]).stored for file in read)
        partial = {file.path: file for file in stored if file.constants or file.deletes}
        return IcebergAccess(writer, partitions, partial)

    @cached_property
    def sort_fields(self) -> tuple[SortField, ...]:
        if self.by is not None and self.by.curve == SORTED:
            return tuple(SortField.parse(text) for text in self.by.columns)
        if self.by is not None:
            return ()
        found = sort_fields(self._table)
        if found is None:
            log.warning(
                "Table %s: its sort order (%s) is of parts or transforms that this library does not know; "
                "what is written is not sorted, and says so.",
                self._name,
                self._table.sort_order(),
            )
        return found or ()

    def _writes(self, noted: str) -> list[str]:
        if not self._run.is_file(noted):
            return []
        return [str(write_id) for write_id in plain_json(self._run.read(noted))]


class IcebergRewrite:
    """Files that are to replace others."""

    def __init__(self, table: IcebergCompaction, write_id: str, beating: Heartbeat) -> None:
        self._of = table
        self._beating = beating
        self._partitions: list[tuple[Any, ...]] = []
        self.write_id = write_id
        self.work = writes_of(table._table).sub(write_id)

    @property
    def access(self) -> IcebergAccess:
        return self._of._access(self.write_id, self._partitions)

    def add_partitions(self, values: Sequence[tuple[Any, ...]]) -> list[str]:
        self._partitions += values
        return [repr(each) for each in values]

    def commit(
        self,
        exchanges: Sequence[FileExchange],
        point: Callable[[Sequence[FileExchange]], ClusteringPoint] | None = None,
        stepped: int = 0,
    ) -> CommittedExchanges:
        standing = list(range(len(exchanges)))
        refused: dict[int, str] = {}
        while True:
            try:
                version = self._committed([exchanges[at] for at in standing], point, stepped)
            except ConflictError:
                # Nothing was committed. What others have changed is left out, and the rest tried again.
                found = self._misfits(open_table(self._of._catalog, self._of._name), exchanges, standing)
                if not found or len(found) == len(standing):
                    raise
                refused |= found
                standing = [at for at in standing if at not in found]
                log.warning(
                    "Table %s: %d groups are left out, as others have changed their files: %s.",
                    self._of._name,
                    len(found),
                    next(iter(found.values())),
                )
            else:
                return CommittedExchanges(version, refused)

    def _committed(
        self,
        exchanges: Sequence[FileExchange],
        point: Callable[[Sequence[FileExchange]], ClusteringPoint] | None,
        stepped: int,
    ) -> str:
        """Commit all of some exchanges, or none."""
        self._beating.confirm()
        made = None if point is None else point(exchanges)
        gone = {file.path for exchange in exchanges for file in exchange.removed}
        written = [
            WrittenFile.model_validate_json(file.details) for exchange in exchanges for file in exchange.added
        ]
        rewritten = [file for file in self._of._all if file.file_path in gone]

        def told(table: Table) -> PropertyChange:
            corrected = true_properties(table)
            brought_by = origin(table, rewritten)
            put = {} if brought_by is None else {REWRITTEN + self.write_id: brought_by}
            if made is not None:  # other runs may have been counted since
                ledger = self._of._kept(table).ledger
                put[LEDGER] = ledger.with_point(made, stepped).model_dump_json()
            removed = (*corrected.removed, *forgotten_origins(table, live_files(table)))
            return PropertyChange({**corrected.put, **put}, removed)

        sequence = self._of._sequence
        change = TableChange(
            Operation.REPLACE,
            self.write_id,
            written,
            rewritten,
            told,
            data_sequence=sequence,
            unneeded=lambda table: unneeded_deletes(table, rewritten, written, sequence, everywhere=True),
        )
        committed = commit(self._of._catalog, self._of._name, change, lambda now: self._check(now, exchanges))
        finish(committed.table, self.write_id, [file.path for file in written])
        for path in sweep_held_up(self._of._catalog, committed.table):
            log.info("Table %s: removed %s, which a dead write had left.", self._of._name, path)
        return str(committed.snapshot_id)

    def _check(self, now: Table, exchanges: Sequence[FileExchange]) -> None:
        """Look that others have deleted no more rows of the files that were read.

        Equality deletes that came since apply to what is written, by its sequence number, unless it is in
        another partition than what was read.
        """
        found = self._misfits(now, exchanges, range(len(exchanges)), gone=False)
        if found:
            raise ConflictError(
                f"table {self._of._name} was changed by another writer: {found[min(found)]}; run it again on "
                "what is there now"
            )

    def _misfits(
        self, now: Table, exchanges: Sequence[FileExchange], places: Sequence[int], *, gone: bool = True
    ) -> dict[int, str]:
        """The places of exchanges whose files others have changed, and how; `gone`: or taken out."""
        live = files_of_snapshot(now)
        deletes = deletes_by_path(now, live)
        known = {each.entry.file_path for each in self._of._found.deletes}
        scoped = [
            each.entry.file_path
            for each in live.deletes
            if not (each.by_position or each.everywhere or each.entry.file_path in known)
        ]
        found: dict[int, str] = {}
        for at in places:
            files = exchanges[at].removed
            for path in (file.path for file in files):
                if path not in deletes:
                    if gone:
                        found[at] = f"{path} is gone"
                elif any(each.by_position for each in set(deletes[path]) - set(self._of._deletes[path])):
                    found[at] = f"rows of {path} were deleted"
            if scoped and any(file.outdated for file in files):
                found[at] = f"rows of partitions were deleted by {scoped[0]}"
        return found


def _partition_of(file: DataFile) -> tuple[Any, ...]:
    return tuple(file.partition[at] for at in range(len(file.partition)))


def _partition_name(file: DataFile) -> str:
    return repr(_partition_of(file))
