"""The rewriting of files of an Iceberg table: one commit puts files in the place of others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from hipslake.clustering.planning import ClusterMark
from hipslake.errors import ConflictError
from hipslake.tables.clustering_ledger import ClusteringPoint
from hipslake.tables.compaction_protocol import (
    CommittedExchanges,
    FileExchange,
)
from hipslake.tables.fitting_exchanges import commit_fitting
from hipslake.tables.iceberg.catalogs import open_table
from hipslake.tables.iceberg.clustering_properties import LEDGER
from hipslake.tables.iceberg.commit import TableChange, commit
from hipslake.tables.iceberg.compacted_snapshot import CompactedSnapshot
from hipslake.tables.iceberg.compaction_access import IcebergAccess
from hipslake.tables.iceberg.data_files import (
    WrittenFile,
    live_files,
)
from hipslake.tables.iceberg.delete_index import (
    deletes_by_path,
    files_of_snapshot,
    unneeded_deletes,
)
from hipslake.tables.iceberg.snapshot_history import REWRITTEN, forgotten_origins, origin
from hipslake.tables.iceberg.stored_marks import PropertyChange, true_properties
from hipslake.tables.iceberg.write_folders import (
    finish,
    sweep_held_up,
    writes_of,
)
from hipslake.versions.heartbeat import Heartbeat

log = logging.getLogger(__name__)


class IcebergRewrite:
    """Files that are to replace others.

    Parameters
    ----------
    read : CompactedSnapshot
    by : ClusterMark or None
        What the rows are clustered by.
    access : callable
        Gives what tasks read and write by, for the id of a write and the partitions that it adds.
    write_id : str
    beating : Heartbeat
    """

    def __init__(
        self,
        read: CompactedSnapshot,
        by: ClusterMark | None,
        access: Callable[[str, Collection[tuple[Any, ...]]], IcebergAccess],
        write_id: str,
        beating: Heartbeat,
    ) -> None:
        self._read, self._by, self._access = read, by, access
        self._beating = beating
        self._partitions: list[tuple[Any, ...]] = []
        self.write_id = write_id
        self.work = writes_of(read.table).sub(write_id)

    @property
    def access(self) -> IcebergAccess:
        return self._access(self.write_id, self._partitions)

    def add_partitions(self, values: Sequence[tuple[Any, ...]]) -> list[str]:
        self._partitions += values
        return [repr(each) for each in values]

    def commit(
        self,
        exchanges: Sequence[FileExchange],
        point: Callable[[Sequence[FileExchange]], ClusteringPoint] | None = None,
        stepped: int = 0,
    ) -> CommittedExchanges:
        read = self._read

        def misfits(places: Sequence[int]) -> dict[int, str]:
            return self._misfits(open_table(read.catalog, read.name), exchanges, places)

        return commit_fitting(
            read.name, exchanges, lambda fitting: self._committed(fitting, point, stepped), misfits
        )

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
        rewritten = [file for file in self._read.files if file.file_path in gone]

        def told(table: Table) -> PropertyChange:
            corrected = true_properties(table)
            brought_by = origin(table, rewritten)
            put = {} if brought_by is None else {REWRITTEN + self.write_id: brought_by}
            if made is not None:  # other runs may have been counted since
                ledger = self._read.ledger(table, self._by).ledger
                put[LEDGER] = ledger.with_point(made, stepped).model_dump_json()
            removed = (*corrected.removed, *forgotten_origins(table, live_files(table)))
            return PropertyChange({**corrected.put, **put}, removed)

        sequence = self._read.sequence
        change = TableChange(
            Operation.REPLACE,
            self.write_id,
            written,
            rewritten,
            told,
            data_sequence=sequence,
            unneeded=lambda table: unneeded_deletes(table, rewritten, written, sequence, everywhere=True),
        )
        committed = commit(
            self._read.catalog, self._read.name, change, lambda now: self._check(now, exchanges)
        )
        finish(committed.table, self.write_id, [file.path for file in written])
        for path in sweep_held_up(self._read.catalog, committed.table):
            log.info("Table %s: removed %s, which a dead write had left.", self._read.name, path)
        return str(committed.snapshot_id)

    def _check(self, now: Table, exchanges: Sequence[FileExchange]) -> None:
        """Look that others have deleted no more rows of the files that were read.

        Equality deletes that came since apply to what is written, by its sequence number, unless it is in
        another partition than what was read.
        """
        found = self._misfits(now, exchanges, range(len(exchanges)), gone=False)
        if found:
            raise ConflictError(
                f"table {self._read.name} was changed by another writer: {found[min(found)]}; run it again "
                "on what is there now"
            )

    def _misfits(
        self, now: Table, exchanges: Sequence[FileExchange], places: Sequence[int], *, gone: bool = True
    ) -> dict[int, str]:
        """The places of exchanges whose files others have changed, and how; `gone`: or taken out."""
        live = files_of_snapshot(now)
        deletes = deletes_by_path(now, live)
        known = {each.entry.file_path for each in self._read.found.deletes}
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
                elif any(each.by_position for each in set(deletes[path]) - set(self._read.deletes[path])):
                    found[at] = f"rows of {path} were deleted"
            if scoped and any(file.outdated for file in files):
                found[at] = f"rows of partitions were deleted by {scoped[0]}"
        return found
