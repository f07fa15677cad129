"""Writes of a table: the folders that a write works in, and what of them is swept when it died.

A write's data files lie in `<location>/data/<write id>/`, its working files and its heartbeat in
`<location>/_writes/<write id>/`. When it has committed, or given up, the latter goes. So a write that left
one behind with a silent heartbeat is dead, and what of its files no snapshot names is an orphan.

A write that takes files away (a vacuum) keeps a list of them there, from before its commit until they are
gone. So whoever finds it dead knows what is left to do.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from hipslake.files.plain_json import plain_json
from hipslake.storage import Storage
from hipslake.tables.catalogs import open_table, version_of
from hipslake.tables.commit import WRITE_PROPERTY, commit_uuid, snapshot_of
from hipslake.tables.named_files import named_files, oldest_logged
from hipslake.tables.writing import DATA
from hipslake.versions.heartbeat import Heartbeat, claim_write, mark_path, pulse, stale_seconds
from hipslake.versions.write_id import is_write_id, write_time

log = logging.getLogger(__name__)

WRITES = "_writes"
UNNEEDED = "unneeded.json"
"""In the folder of a write: the files that nothing names once it has committed."""


def writes_of(table: Table) -> Storage:
    """The storage at the folder of a table's writes."""
    return Storage.at(table.location()).sub(WRITES)


def claim(table: Table) -> str:
    """Draw the id of a new write of a table."""
    return claim_write(writes_of(table), datetime.now(UTC))


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
    named = named_files(table)
    removed = []
    for folder in dead:
        removed += _delete_but(table, folder, named.data)
        removed += _delete_metadata(table, folder, named.metadata)
        removed += [_below(table, path) for path, _ in delete_unneeded(table, folder, named.all)]
        writes.delete_tree(folder)
        log.info("Table %s: swept write %s, which died.", name, folder)
    return sorted(removed)


def living_writes(table: Table) -> list[str]:
    """The ids of the writes that are at work on a table."""
    writes = writes_of(table)
    folders = [entry.path for entry in writes.list() if entry.is_dir and is_write_id(entry.path)]
    return [folder for folder in folders if not _is_dead(writes, folder, stale_seconds())]


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
    for path in sorted(set(noted) - set(named)):
        folder, _, name = path.rpartition("/")
        storage = Storage.at(folder)
        with suppress(FileNotFoundError):
            removed.append((path, storage.entry(name).size))
            storage.delete(name)
    root = Storage.at(table.location())
    for folder in sorted({_below(table, path).rpartition("/")[0] for path, _ in removed}):
        parts = folder.split("/")
        for depth in range(len(parts), 1, -1):  # `data` itself stays
            if not root.list("/".join(parts[:depth])):
                root.delete_tree("/".join(parts[:depth]))
    return removed


def _below(table: Table, path: str) -> str:
    """A path relative to the table's location, where it lies below it."""
    return path.removeprefix(f"{table.location().rstrip('/')}/")


def _is_dead(writes: Storage, folder: str, limit: float) -> bool:
    beats = pulse(writes, folder, limit)
    if beats is None:
        return time.time() - write_time(folder).timestamp() >= limit
    return not beats


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
    token, oldest = str(commit_uuid(write_id)), oldest_logged(table)
    removed = []
    for entry in folder.list():
        if entry.path in names:
            continue
        of_it = token in entry.path
        if entry.path.endswith(".metadata.json") and version_of(entry.path) > oldest:
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
