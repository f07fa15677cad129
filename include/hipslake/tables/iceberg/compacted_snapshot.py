"""The snapshot of an Iceberg table that a compaction reads."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from hipslake.clustering.planning import ClusterMark
from hipslake.tables.clustering_ledger import CountedLedger
from hipslake.tables.deleted_rows import DeleteFile
from hipslake.tables.iceberg.clustering_properties import ledger_of
from hipslake.tables.iceberg.delete_index import (
    LiveFiles,
    deletes_by_path,
    files_of_snapshot,
)
from hipslake.tables.iceberg.snapshot_history import write_of


class CompactedSnapshot:
    """The snapshot that a compaction reads: its data files, and the deletes that apply to them.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    table : pyiceberg.table.Table
        At its newest snapshot.
    name : str
    written : collection of str
        The ids of writes of this run, which was interrupted between two commits: their files are not read.
    """

    def __init__(self, catalog: Catalog, table: Table, name: str, written: Collection[str]) -> None:
        self.catalog, self.table, self.name = catalog, table, name
        self._written = frozenset(written)

    @property
    def sequence(self) -> int:
        """The sequence number of the snapshot; 0 without one."""
        snapshot = self.table.current_snapshot()
        return 0 if snapshot is None else snapshot.sequence_number or 0

    @cached_property
    def found(self) -> LiveFiles:
        """All its files."""
        return files_of_snapshot(self.table)

    @cached_property
    def files(self) -> list[DataFile]:
        """All data files but those that this run has written."""
        return [file for file, _ in self.found.data if write_of(file) not in self._written]

    @cached_property
    def deletes(self) -> dict[str, tuple[DeleteFile, ...]]:
        """By the path of a data file, what applies to it."""
        return deletes_by_path(self.table, self.found)

    def ledger(self, table: Table, by: ClusterMark | None) -> CountedLedger:
        """What a table says of its clustering, counted up to this snapshot."""
        assert by is not None, "of a table that is clustered"
        return ledger_of(table, by, self.found.data, self.sequence)
