"""Writes of a table: the folders that a write works in, and what of them is swept when it died.

A write's data files lie in `<location>/data/<write id>/`, its working files and its heartbeat in
`<location>/_writes/<write id>/`. When it has committed, or given up, the latter goes. So a write that left
one behind with a silent heartbeat is dead, and what of its files no snapshot names is an orphan.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from hipslake.files.plain_json import plain_json
from hipslake.storage import Storage
from hipslake.tables.catalogs import open_table, version_of
from hipslake.tables.commit import WRITE_PROPERTY, commit_uuid, snapshot_of
from hipslake.tables.writing import DATA
from hipslake.versions.heartbeat import Heartbeat, claim_write, mark_path, pulse, stale_seconds
from hipslake.versions.write_id import is_write_id, write_time

log = logging.getLogger(__name__)

WRITES = "_writes"
_LOG_LENGTH = 100


def writes_of(table: Table) -> Storage:
    """The storage at the folder of a table's writes."""
    return Storage.at(table.location()).sub(WRITES)


def claim(table: Table) -> str:
    """Draw the id of a new write of a table."""
    return claim_write(writes_of(table), datetime.now(UTC), rest=False)


def heartbeat(table: Table, write_id: str) -> Heartbeat:
    """What keeps a write from being swept, while its block runs; `confirm` it right before the commit."""
    return Heartbeat(writes_of(table), write_id, rest=False)


def finish(table: Table, write_id: str, kept: Collection[str], *, attempts: int | None = None) -> None:
    """Remove a write's working files, data files that are not kept, and what failed commits have left.

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
    _delete_but(table, write_id, kept)
    if attempts != 1:
        named = {entry.metadata_file for entry in table.metadata.metadata_log}
        if (snapshot := snapshot_of(table, write_id)) is not None:
            named |= {snapshot.manifest_list, *(m.manifest_path for m in snapshot.manifests(table.io))}
        _delete_metadata(table, write_id, named)
    writes_of(table).delete_tree(write_id)


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
    dead = [folder for folder in folders if folder not in keep and _is_dead(writes, folder, limit)]
    for folder in dead:
        writes.write(mark_path(folder), json.dumps({"time": time.time()}).encode())
    # Only what is read after the marks were put up counts: see `hipslake.versions.heartbeat`.
    dead = [folder for folder in dead if _is_dead(writes, folder, limit)]
    if not dead:
        return []
    table = open_table(catalog, name)
    named, manifests = _named(table)
    removed = []
    for folder in dead:
        removed += _delete_but(table, folder, named)
        removed += _delete_metadata(table, folder, manifests)
        writes.delete_tree(folder)
        log.info("Table %s: swept write %s, which died.", name, folder)
    return sorted(removed)


def _is_dead(writes: Storage, folder: str, limit: float) -> bool:
    beats = pulse(writes, folder, limit)
    if beats is None:
        return time.time() - write_time(folder).timestamp() >= limit
    return not beats


def _named(table: Table) -> tuple[set[str], set[str]]:
    """All data files that a snapshot names, and all files of metadata."""
    found: dict[str, ManifestFile] = {}
    metadata = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        metadata.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found[manifest.manifest_path] = manifest
    files = {
        entry.data_file.file_path
        for manifest in found.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }
    return files, metadata | set(found)


def _delete_but(table: Table, write_id: str, kept: Collection[str]) -> list[str]:
    """Delete the data files of a write, but for some."""
    root = Storage.at(table.location())
    names = {path.rpartition(f"/{DATA}/{write_id}/")[2] for path in kept}
    folder = root.sub(f"{DATA}/{write_id}")
    removed = []
    for entry in [*folder.list(recursive=True), *folder.unfinished(recursive=True)]:
        if entry.path not in names:
            folder.delete(entry.path)
            removed.append(f"{DATA}/{write_id}/{entry.path}")
    if not folder.list(recursive=True):
        root.delete_tree(f"{DATA}/{write_id}")
    return removed


def _delete_metadata(table: Table, write_id: str, named: Collection[str]) -> list[str]:
    """Delete a write's manifests that are not named, and the metadata files of commits that it failed at."""
    folder = Storage.at(table.location()).sub("metadata")
    names = {path.rpartition("/")[2] for path in named}
    token, present = str(commit_uuid(write_id)), version_of(table.metadata_location)
    removed = []
    for entry in folder.list():
        if entry.path in names:
            continue
        of_it = token in entry.path
        # What dropped off the log of metadata files long ago is history, and not looked into.
        if entry.path.endswith(".metadata.json") and version_of(entry.path) > present - _LOG_LENGTH:
            of_it = _failed_commit(table, write_id, folder, entry.path)
        if of_it:
            folder.delete(entry.path)
            removed.append(f"metadata/{entry.path}")
    return removed


def _failed_commit(table: Table, write_id: str, folder: Storage, path: str) -> bool:
    """Whether a metadata file is of a commit that failed: each try has a snapshot of its own.

    A file in which that write's snapshot is only an older one may be another writer's, who commits right now.
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
