"""Writes of a table: the folders that a write works in, and what of them is swept when it died.

A write's data files lie in `<location>/data/<write id>/`, its working files and its heartbeat in
`<location>/_writes/<write id>/`. When it has committed, or given up, the latter goes. So a write that left
one behind with a silent heartbeat is dead, and what of its files no snapshot names is an orphan.

A write that takes files away (a vacuum) keeps a list of them there, from before its commit until they are
gone. So a sweep that finds it dead knows what is left to do.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hipslake.storage.addresses import normal_address
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from hipslake.tables.iceberg.catalogs import open_table
from hipslake.tables.iceberg.commit import commit_uuid, snapshots_of
from hipslake.tables.iceberg.commit_attempts import ATTEMPTS, attempts_of, open_attempts, writes_of
from hipslake.tables.iceberg.data_locations import METADATA_PATH, data_location, folder_of_write
from hipslake.tables.iceberg.metadata_files import entries_of, manifests_of, version_of
from hipslake.tables.iceberg.snapshot_history import WRITE_PROPERTY
from hipslake.versions.heartbeat import Heartbeat, StoreClock, claim_write, mark, stale_seconds
from hipslake.versions.orphans import delete_temporary_files, is_dead
from hipslake.versions.write_id import is_write_id

log = logging.getLogger(__name__)

UNNEEDED = "unneeded.json"
"""In the folder of a write: the files that nothing names once it has committed."""


def claim(table: Table) -> str:
    """Draw the id of a new write of a table."""
    return claim_write(writes_of(table), datetime.now(UTC))


def heartbeat(table: Table, write_id: str) -> Heartbeat:
    """What keeps a write from being swept, while its block runs; `confirm` it right before the commit."""
    return Heartbeat(writes_of(table), write_id, rest=False)


def finish(table: Table, write_id: str, kept: Collection[str], *, attempts: int | None = None) -> None:
    """Remove a write's working files, data files that are not kept, and what failed commits have left.

    If the catalog may still accept an attempt of it, all stays, for a sweep to look at.

    Parameters
    ----------
    table : Table
        As it is after the commit.
    write_id : str
    kept : collection of str
        Paths of the data files that were committed: all others are leftovers of failed tasks.
    attempts : int, optional
        How often the catalog was asked to commit; after the first time nothing can be left.
    """
    asked = [attempt for attempt in attempts_of(table) if attempt.write_id == write_id]
    if asked:
        table = table.refresh()
        if open_attempts(table, asked):
            return
        # One of them may have come to stand since the writer gave up.
        kept = {*kept, *named_files(table, snapshots_of(table, write_id)).data}
    if attempts != 1:
        _delete_metadata(table, write_id, _named_metadata(table, write_id, stands=bool(kept or asked)))
    _delete_but(table, write_id, kept)
    writes_of(table).delete_tree(write_id)
    for attempt in asked:
        writes_of(table).delete(attempt.path)


def sweep_writes(
    catalog: Catalog, name: str, stale_after: float | None = None, keep: Collection[str] = ()
) -> list[str]:
    """Delete what dead writes have left of a table, and no snapshot names.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    name : str
        Of the table.
    stale_after : float, optional
        Seconds of silence after which a write counts as dead; None is `HIPSLAKE_STALE_SECONDS`, default 300.
    keep : collection of str
        Write ids that are not touched.

    Returns
    -------
    list of str
        The paths that were removed, relative to the table's location.
    """
    table = open_table(catalog, name)
    writes = writes_of(table)
    limit = stale_seconds() if stale_after is None else stale_after
    folders = [entry.path for entry in writes.list() if entry.is_dir and is_write_id(entry.path)]
    clock = StoreClock(writes)
    delete_temporary_files(writes, ATTEMPTS, limit, clock)  # of processes that were killed as they put one up
    dead = [folder for folder in folders if folder not in keep and is_dead(writes, folder, limit, clock)]
    for folder in dead:
        mark(writes, folder)
    # A writer whose heartbeat has beaten since, and which looked before the mark was set, may still commit.
    dead = [folder for folder in dead if is_dead(writes, folder, limit, clock)]
    attempts = attempts_of(table)
    if not dead and not attempts:
        return []
    table = open_table(catalog, name)  # only what is read after the attempts counts
    under_way = open_attempts(table, attempts)
    for attempt in attempts:  # of writes that are swept
        if attempt.write_id not in {*folders, *under_way}:
            writes.delete(attempt.path)
    dead = [folder for folder in dead if folder not in under_way]
    if not dead:
        return []
    named = named_files(table)
    removed = []
    for folder in dead:
        removed += _delete_but(table, folder, named.data)
        removed += _delete_metadata(table, folder, named.metadata)
        removed += [_below(table, path) for path, _ in delete_unneeded(table, folder, named.all)]
        writes.delete_tree(folder)
        for attempt in attempts:
            if attempt.write_id == folder:
                writes.delete(attempt.path)
        log.info("Table %s: swept write %s, which died.", name, folder)
    return sorted(removed)


def sweep_held_up(catalog: Catalog, table: Table, stale_after: float | None = None) -> list[str]:
    """Sweep what a sweep has left since the catalog might have accepted it; to be called after a commit.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    table : pyiceberg.table.Table
    stale_after : float, optional
        As for `sweep_writes`.
    """
    if not attempts_of(table):
        return []
    return sweep_writes(catalog, ".".join(table.name()), stale_after)


def living_writes(table: Table) -> list[str]:
    """The ids of the writes that are at work on a table."""
    writes = writes_of(table)
    folders = [entry.path for entry in writes.list() if entry.is_dir and is_write_id(entry.path)]
    clock = StoreClock(writes)
    return [folder for folder in folders if not is_dead(writes, folder, stale_seconds(), clock)]


def keep_unneeded(table: Table, write_id: str, paths: Collection[str]) -> None:
    """Note which files nothing names once a write has committed."""
    folder = writes_of(table).sub(write_id)
    folder.write(UNNEEDED, json.dumps(sorted(paths)).encode())


def delete_unneeded(table: Table, write_id: str, named: Collection[str]) -> list[tuple[str, int]]:
    """Delete the files that a write has noted, but for those that are named all the same.

    Returns
    -------
    list of (str, int)
        Paths, and bytes.
    """
    try:
        noted = json.loads(writes_of(table).read(f"{write_id}/{UNNEEDED}"))
    except (FileNotFoundError, ValueError):  # half of it: then there was no commit
        return []
    removed = []
    standing = {normal_address(path) for path in named}  # a file may have a name by each of s3:// and s3a://
    for path in sorted(path for path in noted if normal_address(path) not in standing):
        storage, name = Storage.of_file(path)
        with suppress(FileNotFoundError):
            removed.append((path, storage.entry(name).size))
            storage.delete(name)
    for data in {data_location(table.location(), {}), data_location(table.location(), table.properties)}:
        root = Storage.at(data)
        folders = {path.rpartition("/")[0] for path, _ in removed if path.startswith(f"{data}/")}
        for folder in sorted(folders - {data}):
            parts = folder.removeprefix(f"{data}/").split("/")
            # What lies above the folder of a write is of other writes too, which may be about to use it.
            first = next((at for at, part in enumerate(parts) if is_write_id(part)), 0)
            for depth in range(len(parts), first, -1):
                if not root.list("/".join(parts[:depth])):
                    root.delete_tree("/".join(parts[:depth]))
    return removed


def _named_metadata(table: Table, write_id: str, *, stands: bool) -> set[str]:
    """The files in a table's folder of metadata that it names and a write may have written."""
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    snapshots = snapshots_of(table, write_id)
    if stands and not snapshots:  # its own has expired, and later ones may have its manifests
        snapshots = table.snapshots()
    for snapshot in snapshots:
        named |= {snapshot.manifest_list, *(m.manifest_path for m in manifests_of(table, snapshot))}
    return named | {each.statistics_path for each in table.metadata.statistics}


def _below(table: Table, path: str) -> str:
    """A path relative to the table's location, where it lies below it."""
    return path.removeprefix(f"{table.location().rstrip('/')}/")


def _delete_but(table: Table, write_id: str, kept: Collection[str]) -> list[str]:
    """Delete the data files of a write, but for some."""
    data = data_location(table.location(), table.properties)
    root = Storage.at(data)
    names = {path.rpartition(f"/{write_id}/")[2] for path in kept}
    removed = []
    for place in {write_id, folder_of_write(write_id, table.properties)}:  # others may have set the property
        folder = root.sub(place)
        for entry in [*folder.list(recursive=True), *folder.unfinished(recursive=True)]:
            if entry.path not in names:
                folder.delete(entry.path)
                removed.append(_below(table, f"{data}/{place}/{entry.path}"))
        if not folder.list(recursive=True):
            root.delete_tree(place)
    return removed


def _delete_metadata(table: Table, write_id: str, named: Collection[str]) -> list[str]:
    """Delete a write's manifests that are not named, and the metadata files of commits that it failed at."""
    default = f"{table.location().rstrip('/')}/metadata"
    names = {path.rpartition("/")[2] for path in named}
    token, oldest = str(commit_uuid(write_id)), oldest_logged(table)
    removed = []
    for root in {default, table.properties.get(METADATA_PATH, default).rstrip("/")}:
        folder = Storage.at(root)
        for entry in folder.list():
            if entry.path in names:
                continue
            of_it = token in entry.path
            if entry.path.endswith(".metadata.json") and version_of(entry.path) > oldest:
                of_it = _failed_commit(table, write_id, folder, entry.path)
            if of_it:
                folder.delete(entry.path)
                removed.append(_below(table, f"{root}/{entry.path}"))
    return removed


def _failed_commit(table: Table, write_id: str, folder: Storage, path: str) -> bool:
    """Whether a metadata file is of a commit that failed: each try has a snapshot of its own.

    A file in which that write's snapshot is only an older one may be that of another writer, which commits
    right now.
    """
    try:
        told = plain_json(folder.read(path))
    except (FileNotFoundError, ValueError):
        return False
    newest = told.get("current-snapshot-id")
    if newest is None or table.snapshot_by_id(newest) is not None:
        return False
    mine = (s for s in told.get("snapshots", ()) if s["snapshot-id"] == newest)
    return any(s.get("summary", {}).get(WRITE_PROPERTY) == write_id for s in mine)


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
