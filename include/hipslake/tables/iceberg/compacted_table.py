"""An Iceberg table: its files are replaced by others in one snapshot."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from hipslake.clustering.planning import ClusterMark, TableFile
from hipslake.errors import ConflictError, PlanError
from hipslake.specs.partition_fields import SortField
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.tables.compaction_protocol import WHOLE, Share
from hipslake.tables.deleted_rows import DeleteFile
from hipslake.tables.iceberg.catalogs import check_writable, open_table
from hipslake.tables.iceberg.commit import TableChange, commit, snapshot_of
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
from hipslake.tables.iceberg.file_writer import FileWriter
from hipslake.tables.iceberg.partition_columns import partition_column
from hipslake.tables.iceberg.schemas import arrow_schema, with_name_mapping
from hipslake.tables.iceberg.snapshot_history import REWRITTEN, forgotten_origins, origin
from hipslake.tables.iceberg.stored_marks import PropertyChange, true_properties
from hipslake.tables.iceberg.table_partitioning import sort_fields
from hipslake.tables.iceberg.write_folders import (
    claim,
    finish,
    heartbeat,
    sweep_held_up,
    sweep_writes,
    writes_of,
)
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_files import (
    StoredFile,
    batch_rows,
    check_once,
    count_deleted,
    field_id,
    names_in_file,
    opened_parquet,
    read_data_file,
)
from hipslake.tables.stored_values import RowSum, StoredRows, sum_of
from hipslake.versions.heartbeat import Heartbeat

log = logging.getLogger(__name__)

WRITES_OF_RUN = "compact_table/writes.json"
"""In the run folder: the ids of the writes of all attempts."""

_OF_GROUP = re.compile(r"/([^/]+)/group-(\d+)-[^/]*-by-([0-9a-f]{12})\.parquet$")
"""The name of a file that was clustered: its write, its group, and by what.

It says so in its name, as nothing else goes with the file alone: properties of the table would grow with each
compaction, and outlive the files.
"""


@dataclass(frozen=True)
class IcebergAccess:
    """Reads data files of a table, and writes new ones.

    Attributes
    ----------
    writer : FileWriter
    partitions : dict of str to tuple
        The values of each partition, by its name.
    partial : dict of str to StoredFile
        Files that may lack a column, or of which rows are deleted, by their paths.
    """

    writer: FileWriter
    partitions: dict[str, tuple[Any, ...]]
    partial: dict[str, StoredFile]

    def read(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> Iterator[pa.RecordBatch]:
        file = self.partial.get(path, StoredFile(path))
        yield from read_data_file(file, self.writer.arrow_schema, columns, share.of)

    def deleted(self, path: str, share: Share = WHOLE) -> int:
        file = self.partial.get(path, StoredFile(path))
        return count_deleted(file, self.writer.arrow_schema, share.of)

    def checksum(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> RowSum:
        file = self.partial.get(path, StoredFile(path))
        schema = self.writer.arrow_schema
        with opened_parquet(path) as (opened, parquet):
            stored = parquet.schema_arrow
            wanted = [schema.field(name) for name in columns]
            names = names_in_file(stored, schema, wanted)
            groups = share.of(parquet.num_row_groups)
            found = [name for name in names if name is not None]
            check_once(stored, found, path)
            if (
                not file.deletes
                and len(found) == len(names)
                and all(
                    _same_parts(stored.field(name), field) for name, field in zip(found, wanted, strict=True)
                )
            ):
                return StoredRows(opened).summed(found, groups, batch_rows(parquet.metadata))
        # What the file lacks is not stored, nor that rows are deleted: rows count as they are read.
        total = RowSum(0, 0)
        for batch in read_data_file(file, schema, columns, share.of):
            total = total.plus(sum_of(batch))
        return total

    def write(self, rows: pa.Table, partition: str, name: str, mark: ClusterMark | None) -> NewFile:
        by = "" if mark is None else f"-by-{_digest(mark, self.writer.schema)}"
        return self.writer.write_file(rows, self.partitions[partition], f"{name}{by}")


class IcebergCompaction:
    """A table at its newest snapshot.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    name : str
    run : Storage
        The run folder, which remembers the writes of all attempts.
    by : ClusterMark, optional
        What its rows are clustered by. Without it, files that are written are sorted as the table says.

    Raises
    ------
    SpecError
        There is no such table or catalog.
    PlanError
        It has delete files of a kind that is not read.
    """

    left_out: tuple[str, ...] = ()

    def __init__(self, catalog: Catalog, name: str, run: Storage, by: ClusterMark | None = None) -> None:
        self._run = run
        self._by = by
        self._name = name
        self.name = f"table {name}"
        self._catalog = catalog
        for path in sweep_writes(self._catalog, name):
            log.info("Table %s: removed %s, which a dead write had left.", name, path)
        self._table: Table = open_table(self._catalog, name)
        check_writable(self._table)
        snapshot = self._table.current_snapshot()
        self._sequence = 0 if snapshot is None else snapshot.sequence_number or 0

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
                self._mark_of(file.file_path),
                len(self._deletes[file.file_path]),
            )
            for file in self._live
        )

    @cached_property
    def partition_values(self) -> pa.Table:
        spec = self._table.spec()
        kinds = partition_types(spec, self._table.schema())
        found = {}
        for at, (field, kind) in enumerate(zip(spec.fields, kinds, strict=True)):
            values = [file.partition[at] for file in self._live]
            found[field.name] = partition_column(values, str(field.transform), kind)
        return pa.table(found)

    def close(self) -> None:
        self._catalog.close()

    def finished(self) -> str | None:
        for write_id in self._writes():
            snapshot = snapshot_of(self._table, write_id)
            if snapshot is not None:
                return str(snapshot.snapshot_id)
        return None

    @contextmanager
    def rewriting(self) -> Iterator[IcebergRewrite]:
        write_id = claim(self._table)
        self._run.write(WRITES_OF_RUN, json.dumps([*self._writes(), write_id]).encode())
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

    @property
    def older_files(self) -> int:
        return len(self._all) - len(self._live)

    @cached_property
    def _live(self) -> list[DataFile]:
        """Files of the present partition spec; those of older ones cannot be merged with them."""
        present = self._table.spec().spec_id
        return [file for file in self._all if file.spec_id == present]

    @cached_property
    def _all(self) -> list[DataFile]:
        return [file for file, _ in self._found.data]

    @cached_property
    def _found(self) -> LiveFiles:
        return files_of_snapshot(self._table)

    @cached_property
    def _deletes(self) -> dict[str, tuple[DeleteFile, ...]]:
        """By the path of a data file, what applies to it."""
        return deletes_by_path(self._table, self._found)

    def _access(self, write_id: str) -> IcebergAccess:
        partitions = {_partition_name(file): _partition_of(file) for file in self._live}
        writer = FileWriter.of(self._table, self._sort, write_id)
        stored = (IcebergFile(file, self._table, self._deletes[file.file_path]).stored for file in self._live)
        partial = {file.path: file for file in stored if file.constants or file.deletes}
        return IcebergAccess(writer, partitions, partial)

    @cached_property
    def _sort(self) -> tuple[SortField, ...]:
        """What rows of a file are sorted by; along a curve, by nothing that the table could name."""
        if self._by is not None:
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

    def _mark_of(self, path: str) -> ClusterMark | None:
        """The mark of a file that was clustered as it is to be clustered now; None for others."""
        match = _OF_GROUP.search(path)
        if match is None or self._by is None or match[3] != _digest(self._by, self._table.schema()):
            return None
        return ClusterMark(self._by.curve, self._by.columns, f"{match[1]}/{match[2]}")

    def _writes(self) -> list[str]:
        if not self._run.is_file(WRITES_OF_RUN):
            return []
        return [str(write_id) for write_id in plain_json(self._run.read(WRITES_OF_RUN))]


class IcebergRewrite:
    """Files that are to replace others."""

    def __init__(self, table: IcebergCompaction, write_id: str, beating: Heartbeat) -> None:
        self._of = table
        self._beating = beating
        self.write_id = write_id
        self.work = writes_of(table._table).sub(write_id)

    @property
    def access(self) -> IcebergAccess:
        return self._of._access(self.write_id)

    def commit(self, added: Sequence[NewFile], removed: Sequence[TableFile]) -> str:
        self._beating.confirm()
        gone = {file.path for file in removed}
        written = [WrittenFile.model_validate_json(file.details) for file in added]
        rewritten = [file for file in self._of._live if file.file_path in gone]

        def told(table: Table) -> PropertyChange:
            corrected = true_properties(table)
            brought_by = origin(table, rewritten)
            put = {} if brought_by is None else {REWRITTEN + self.write_id: brought_by}
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
            unneeded=lambda table: unneeded_deletes(table, rewritten, written, sequence),
        )
        committed = commit(self._of._catalog, self._of._name, change, lambda now: self._check(now, gone))
        finish(committed.table, self.write_id, [file.path for file in written])
        for path in sweep_held_up(self._of._catalog, committed.table):
            log.info("Table %s: removed %s, which a dead write had left.", self._of._name, path)
        return str(committed.snapshot_id)

    def _check(self, now: Table, gone: set[str]) -> None:
        """Look that others have deleted no more rows of the files that were read, by their positions.

        Equality deletes that came since apply to what is written, by its sequence number.
        """
        found = deletes_by_path(now, files_of_snapshot(now))
        for path in sorted(gone & found.keys()):
            if any(each.by_position for each in set(found[path]) - set(self._of._deletes[path])):
                raise ConflictError(
                    f"table {self._of._name} was changed by another writer: rows of {path} were deleted; "
                    "run it again on what is there now"
                )


def _same_parts(stored: pa.Field, wanted: pa.Field) -> bool:
    """Whether the nested parts of a column have the same fields in a file as in the table."""
    old, new = stored.type, wanted.type
    if not (pa.types.is_nested(old) or pa.types.is_nested(new)):
        return True
    if pa.types.is_map(old) and pa.types.is_map(new):
        return _same_parts(old.key_field, new.key_field) and _same_parts(old.item_field, new.item_field)
    if pa.types.is_struct(old) != pa.types.is_struct(new) or old.num_fields != new.num_fields:
        return False
    pairs = [(old.field(at), new.field(at)) for at in range(old.num_fields)]
    known = all(field_id(a) == field_id(b) and field_id(a) is not None for a, b in pairs)
    return (known or not pa.types.is_struct(old)) and all(_same_parts(a, b) for a, b in pairs)


def _digest(mark: ClusterMark, schema: Schema) -> str:
    """Of a curve and the columns that it goes by; these by their ids, since others may rename them."""
    told = [mark.curve, *(schema.find_field(name).field_id for name in mark.columns)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]


def _partition_of(file: DataFile) -> tuple[Any, ...]:
    return tuple(file.partition[at] for at in range(len(file.partition)))


def _partition_name(file: DataFile) -> str:
    return repr(_partition_of(file))
