"""A Delta table that is compacted: its files are replaced by others with the same rows, in one commit."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa

from hipslake.clustering.planning import SORTED, ClusterMark, TableFile
from hipslake.errors import ConflictError, PlanError, SpecError
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.tables.clustering_ledger import ClusteringPoint, CountedLedger
from hipslake.tables.compaction_protocol import ColumnBounds, CommittedExchanges, FileExchange
from hipslake.tables.delta.delta_commit import DeltaChange, commit_delta, stands
from hipslake.tables.delta.delta_compaction_access import DeltaAccess, mark_of_path
from hipslake.tables.delta.delta_files import (
    DeltaFile,
    WrittenDeltaFile,
    live_delta_files,
    partition_name,
    write_of_path,
)
from hipslake.tables.delta.delta_lineage import Lineage
from hipslake.tables.delta.delta_log import DeltaLog, LogState
from hipslake.tables.delta.delta_marks import DeltaMarks
from hipslake.tables.delta.delta_origins import note_origin
from hipslake.tables.delta.delta_protocol import check_delta_writable
from hipslake.tables.delta.delta_shape import check_delta_written, partition_fields_of
from hipslake.tables.delta.delta_vectors import deleted_count
from hipslake.tables.delta.delta_writer import DeltaWriter
from hipslake.tables.delta.delta_writes import (
    beating_write,
    claim_delta_write,
    finish_write,
    sweep_after_commit,
    sweep_delta_writes,
    writes_below,
)
from hipslake.tables.fitting import from_internal
from hipslake.tables.fitting_exchanges import commit_fitting
from hipslake.tables.new_files import NewFile
from hipslake.versions.heartbeat import Heartbeat

log = logging.getLogger(__name__)

WRITES_OF_RUN = "compact_table/writes.json"
"""In the run folder: the ids of the writes of all attempts that were the last of their attempt."""

EARLIER_WRITES = "compact_table/earlier_writes.json"
"""In the run folder: the ids of those that others were to follow."""

TARGET_BYTES = "delta.targetFileSize"
"""Delta's property of a table: how large data files should be."""

_SIZE = re.compile(r"([0-9]+)\s*(?:([kmgt])?b?)", re.IGNORECASE)  # units are powers of 1024 there


def target_bytes_of(configuration: Mapping[str, str], name: str) -> int | None:
    """The size of data files that a table asks for; None if it asks for none.

    Raises
    ------
    SpecError
        Its property is no size.
    """
    told = configuration.get(TARGET_BYTES)
    if told is None:
        return None
    match = _SIZE.fullmatch(told.strip())
    size = 0 if match is None else int(match[1]) << (10 * " kmgt".index((match[2] or " ").lower()))
    if not 0 < size < 1 << 63:
        raise SpecError(
            f"table {name}: its property {TARGET_BYTES} is {told!r}, no size of files; mend it, or "
            "give 'target_file_size' in the spec"
        )
    return size


class DeltaCompaction:
    """A table at its newest version.

    Parameters
    ----------
    table : DeltaLog
    name : str
    run : Storage
        The run folder, which remembers the writes of all attempts.
    by : ClusterMark, optional
        What its rows are clustered by.

    Raises
    ------
    SpecError
        There is no such table; or rows are to be sorted, and by what is not said.
    PlanError
        It asks for more of readers or writers than is done here.
    """

    left_out: tuple[str, ...] = ()
    unneeded_deletes = 0

    def __init__(self, table: DeltaLog, name: str, run: Storage, by: ClusterMark | None = None) -> None:
        self._log = table
        self._run = run
        self.by = by
        self._name = name
        self.name = f"table {name}"
        found = table.newest()
        if found is None:
            raise SpecError(f"there is no Delta table {name} at {table.location}")
        if by is not None and by.curve == SORTED and not by.columns:
            raise SpecError(
                f"table {name}: a Delta table has no sort order of its own; name in the spec what to sort "
                "by, as 'sort: [...]'"
            )
        for path in sweep_delta_writes(table):
            log.info("Table %s: removed %s, which a dead write had left.", name, path)
        check_delta_writable(found, name)
        self._state: LogState = found

    @property
    def schema(self) -> pa.Schema:
        return self._state.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self._state.partition_columns

    @property
    def access(self) -> DeltaAccess:
        return self._access("")

    @property
    def sort_fields(self) -> tuple[SortField, ...]:
        if self.by is None or self.by.curve != SORTED:
            return ()
        return tuple(SortField.parse(text) for text in self.by.columns)

    @property
    def target_bytes(self) -> int | None:
        return target_bytes_of(self._state.configuration, self._name)

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        return partition_fields_of(self._state)

    @cached_property
    def files(self) -> tuple[TableFile, ...]:
        return tuple(
            TableFile(
                file.path,
                file.rows,
                file.bytes,
                partition_name(file.entry),
                mark_of_path(file.entry["path"], self.by),
                len(file.stored.deletes),
                deleted=deleted_count(file.entry),
            )
            for file in self._live
        )

    @cached_property
    def partition_values(self) -> pa.Table:
        values = [file.partition for file in self._live]
        found = {}
        for at, name in enumerate(self.partition_columns):
            found[name] = from_internal([each[at] for each in values], self.schema.field(name).type)
        return pa.table(found)

    def bounds(self, column: str, files: Sequence[TableFile | NewFile]) -> ColumnBounds:
        raise self._not_kept()

    def begin_clustering(self) -> None:
        raise self._not_kept()

    def kept_clustering(self) -> CountedLedger:
        raise self._not_kept()

    def _not_kept(self) -> SpecError:
        return SpecError(f"{self.name} is a Delta table, which is not kept clustered; write 'mode: hilbert'")

    def close(self) -> None:
        """Nothing is held open."""

    def finished(self) -> str | None:
        made = Lineage.of(self._log, self._state.version).made
        return next((str(made[write]) for write in self._writes(WRITES_OF_RUN) if write in made), None)

    def merge_manifests(self, *, dry_run: bool) -> None:
        """A Delta table has no lists of its files but the log."""

    @contextmanager
    def rewriting(self, last: bool = True) -> Iterator[DeltaRewrite]:
        location = self._log.location
        write_id = claim_delta_write(location)
        noted = WRITES_OF_RUN if last else EARLIER_WRITES
        self._run.write(noted, json.dumps([*self._writes(noted), write_id]).encode())
        rewrite: DeltaRewrite | None = None
        try:
            with beating_write(location, write_id) as beating:
                rewrite = DeltaRewrite(self, write_id, beating)
                yield rewrite
        except BaseException as error:
            # Tasks of a job that failed may still write: a sweep looks later.
            if rewrite is None or isinstance(error, ConflictError | PlanError):
                finish_write(self._log, write_id, ())
            raise

    @cached_property
    def _live(self) -> list[DeltaFile]:
        """All data files but those that this run has written, as it was interrupted between two commits."""
        earlier = {*self._writes(EARLIER_WRITES)} - {""}
        found = live_delta_files(self._state)
        return [file for file in found if write_of_path(file.entry["path"]) not in earlier]

    def _access(self, write_id: str) -> DeltaAccess:
        partial = (file.stored for file in self._live if self.partition_columns or file.stored.deletes)
        stored = {file.path: file for file in partial}
        clustered = () if self.by is None or self.sort_fields else self.by.columns
        return DeltaAccess(DeltaWriter.of(self._state, self.sort_fields, write_id, clustered), stored)

    def _writes(self, noted: str) -> list[str]:
        if not self._run.is_file(noted):
            return []
        return [str(write_id) for write_id in plain_json(self._run.read(noted))]


class DeltaRewrite:
    """Files that are to replace others."""

    def __init__(self, table: DeltaCompaction, write_id: str, beating: Heartbeat) -> None:
        self._of = table
        self._beating = beating
        self.write_id = write_id
        self.work = writes_below(table._log.location).sub(write_id)

    @property
    def access(self) -> DeltaAccess:
        return self._of._access(self.write_id)

    def add_partitions(self, values: Sequence[tuple[Any, ...]]) -> list[str]:
        assert not values, "no file of a Delta table is of older partitions"
        return []

    def commit(
        self,
        exchanges: Sequence[FileExchange],
        point: Callable[[Sequence[FileExchange]], ClusteringPoint] | None = None,
        stepped: int = 0,
    ) -> CommittedExchanges:
        return commit_fitting(
            self._of._name, exchanges, self._committed, lambda places: self._misfits(exchanges, places)
        )

    def _committed(self, exchanges: Sequence[FileExchange]) -> str:
        """Commit all of some exchanges, or none."""
        table, name, by = self._of._log, self._of._name, self._of.by
        gone = {file.path for exchange in exchanges for file in exchange.removed}
        written = [
            WrittenDeltaFile.model_validate_json(file.details)
            for exchange in exchanges
            for file in exchange.added
        ]
        rewritten = [file for file in self._of._live if file.path in gone]
        marks = DeltaMarks(table, self._of._state)
        paths = [file.entry["path"] for file in rewritten]
        note_origin(table.location, self.write_id, paths, lambda write: write in marks.writes_alone)

        def check(now: LogState) -> None:
            self._beating.confirm()
            check_delta_written(name, self._of._state, now)

        parameters = {} if by is None else {"zOrderBy": json.dumps(by.columns), "curve": by.curve}
        change = DeltaChange(self.write_id, "OPTIMIZE", parameters, written, rewritten, data_change=False)
        committed = commit_delta(table, name, change, check)
        finish_write(table, self.write_id, [file.path for file in written])
        for path in sweep_after_commit(table):
            log.info("Table %s: removed %s, which a dead write had left.", name, path)
        return str(committed.version)

    def _misfits(self, exchanges: Sequence[FileExchange], places: Sequence[int]) -> dict[int, str]:
        """The places of exchanges whose files others have changed or taken out; and one of them."""
        now = self._of._log.newest()
        known = {file.path: file for file in self._of._live}
        found: dict[int, str] = {}
        for at in places:
            for file in exchanges[at].removed:
                if now is None or not stands(now, known[file.path]):
                    found[at] = f"{file.path} is gone, or has changed"
        return found
