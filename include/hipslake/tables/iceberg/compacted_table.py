"""An Iceberg table: its files are replaced by others in one snapshot."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import Table

from hipslake.clustering.planning import SORTED, ClusterMark, TableFile
from hipslake.errors import ConflictError, PlanError, SpecError
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.tables.clustering_ledger import CountedLedger
from hipslake.tables.compaction_protocol import (
    ColumnBounds,
    MergedManifests,
)
from hipslake.tables.deleted_rows import count_by_position
from hipslake.tables.iceberg.catalogs import check_writable, open_table
from hipslake.tables.iceberg.clustering_properties import begin_ledger, clustered_by
from hipslake.tables.iceberg.commit import snapshot_of
from hipslake.tables.iceberg.compacted_snapshot import CompactedSnapshot
from hipslake.tables.iceberg.compaction_access import IcebergAccess, mark_of_name
from hipslake.tables.iceberg.data_files import (
    IcebergFile,
    WrittenFile,
    partition_types,
)
from hipslake.tables.iceberg.delete_index import (
    unneeded_deletes,
)
from hipslake.tables.iceberg.file_properties import target_file_bytes
from hipslake.tables.iceberg.file_writer import FileWriter
from hipslake.tables.iceberg.iceberg_rewrite import IcebergRewrite
from hipslake.tables.iceberg.manifest_merging import merge_manifests
from hipslake.tables.iceberg.partition_columns import partition_column
from hipslake.tables.iceberg.schemas import arrow_schema, with_name_mapping
from hipslake.tables.iceberg.table_partitioning import partition_fields, sort_fields
from hipslake.tables.iceberg.write_folders import (
    claim,
    finish,
    heartbeat,
    sweep_writes,
)
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_files import read_delete_file

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
        earlier = [write_id for write_id in self._writes(EARLIER_WRITES) if write_id]
        self._read = CompactedSnapshot(catalog, self._table, name, earlier)
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
                len(self._read.deletes[file.file_path]),
                file.spec_id != self._table.spec().spec_id,
                count_by_position(file.file_path, self._read.deletes[file.file_path], read_delete_file),
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
        begin_ledger(self._catalog, self._name, self.kept_clustering().ledger)

    def kept_clustering(self) -> CountedLedger:
        return self._read.ledger(self._table, self.by)

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
                rewrite = IcebergRewrite(self._read, self.by, self._access, write_id, beating)
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
        return [file for file in self._read.files if file.spec_id == present]

    @cached_property
    def _outdated(self) -> list[DataFile]:
        """Parquet files of older partition specs; others stay as they are."""
        present = self._table.spec().spec_id
        older = [file for file in self._read.files if file.spec_id != present]
        return [file for file in older if file.file_format == FileFormat.PARQUET]

    def _access(self, write_id: str, added: Collection[tuple[Any, ...]] = ()) -> IcebergAccess:
        partitions = {_partition_name(file): _partition_of(file) for file in self._live}
        partitions |= {repr(values): values for values in added}
        writer = FileWriter.of(self._table, self.sort_fields, write_id)
        read = (*self._live, *self._outdated)
        stored = (IcebergFile(file, self._table, self._read.deletes[file.file_path]).stored for file in read)
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


def _partition_of(file: DataFile) -> tuple[Any, ...]:
    return tuple(file.partition[at] for at in range(len(file.partition)))


def _partition_name(file: DataFile) -> str:
    return repr(_partition_of(file))
