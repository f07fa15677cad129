"""Manifests of a table are merged: many small ones make it slow to plan a query."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from hipslake.errors import ConflictError, SpecError
from hipslake.tables.compaction_protocol import MergedManifests
from hipslake.tables.iceberg.commit import TableChange, commit
from hipslake.tables.iceberg.metadata_files import manifests_of
from hipslake.tables.iceberg.snapshot_producers import DEFAULT_MANIFEST_BYTES, merged_manifests
from hipslake.tables.iceberg.stored_marks import true_properties
from hipslake.tables.iceberg.write_folders import claim, finish, heartbeat

MANIFEST_BYTES = "commit.manifest.target-size-bytes"
"""Iceberg's property of a table: how large manifests should be."""


def manifest_bytes(table: Table) -> int:
    """How large manifests of a table should be.

    Raises
    ------
    SpecError
        Its property says no number.
    """
    told = table.properties.get(MANIFEST_BYTES, str(DEFAULT_MANIFEST_BYTES))
    if not told.strip().isdecimal() or int(told) < 1:
        raise SpecError(
            f"table {'.'.join(table.name())}: its property {MANIFEST_BYTES} is {told!r}, no number of bytes; "
            "mend it"
        )
    return int(told)


def merge_manifests(catalog: Catalog, table: Table, *, dry_run: bool) -> MergedManifests:
    """Merge small manifests and cut large ones, by a snapshot with the same files.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    table : pyiceberg.table.Table
        As it is now.
    dry_run : bool
        Only say what would come of it.

    Raises
    ------
    ConflictError
        Others kept committing first.
    CommitStateUnknownError
        The catalog does not say whether the commit stands.
    """
    snapshot = table.current_snapshot()
    found = [] if snapshot is None else manifests_of(table, snapshot)
    size = manifest_bytes(table)
    groups = merged_manifests(found, size)
    planned = len(found) + sum(group.num_files - len(group.files) for group in groups)
    if not groups or dry_run:
        return MergedManifests(len(found), planned, "")
    name = ".".join(table.name())
    write_id = claim(table)
    try:
        with heartbeat(table, write_id) as beating:
            beating.confirm()
            change = TableChange(Operation.REPLACE, write_id, properties=true_properties, manifest_bytes=size)
            committed = commit(catalog, name, change)
    except ConflictError:
        finish(table, write_id, [])
        raise
    finish(committed.table, write_id, [], attempts=committed.attempts)
    newest = committed.table.snapshot_by_id(committed.snapshot_id)
    after = len(manifests_of(committed.table, newest)) if newest is not None else planned
    return MergedManifests(len(found), after, str(committed.snapshot_id))
