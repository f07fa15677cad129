"""The files that a table names: those of its snapshots, and those of its metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hipslake.tables.iceberg.catalogs import version_of
from hipslake.tables.iceberg.metadata_failures import entries_of, manifests_of


class NamedFiles(NamedTuple):
    """Paths, as the table has them.

    Attributes
    ----------
    data : set of str
        Data and delete files that are live in a snapshot.
    metadata : set of str
        Metadata files, lists of manifests, manifests, and files of statistics.
    """

    data: set[str]
    metadata: set[str]

    @property
    def all(self) -> set[str]:
        """Both."""
        return self.data | self.metadata


def oldest_logged(table: Table) -> int:
    """The number of the oldest metadata file that a table's log names; -1 if there is none.

    Older ones are history: nobody is led to them any more.
    """
    return min((version_of(entry.metadata_file) for entry in table.metadata.metadata_log), default=-1)


def named_files(table: Table, snapshots: Iterable[Snapshot] | None = None) -> NamedFiles:
    """What some snapshots of a table name, all of them by default; the metadata files come with any.

    Parameters
    ----------
    table : pyiceberg.table.Table
    snapshots : iterable of Snapshot, optional
    """
    chosen = table.snapshots() if snapshots is None else list(snapshots)
    ids = {snapshot.snapshot_id for snapshot in chosen}
    manifests: dict[str, ManifestFile] = {}
    metadata = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for statistics in (*table.metadata.statistics, *table.metadata.partition_statistics):
        if statistics.snapshot_id in ids:
            metadata.add(statistics.statistics_path)
    for snapshot in chosen:
        metadata.add(snapshot.manifest_list)
        for manifest in manifests_of(table, snapshot):
            manifests[manifest.manifest_path] = manifest
    data = {
        entry.data_file.file_path for manifest in manifests.values() for entry in entries_of(table, manifest)
    }
    return NamedFiles(data, metadata | set(manifests))
