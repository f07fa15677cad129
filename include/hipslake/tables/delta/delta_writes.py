"""Writes of a Delta table: the folders that a write works in, and what of them is swept when it died.

A write's data files lie in `<location>/data/<write id>/`, its deletion vectors in
`<location>/_vectors/<write id>/`, its working files and its heartbeat in
`<location>/_writes/<write id>/`. When it has committed, or given up, the latter goes. Writer and sweeper keep
to the signs of `hipslake.versions.intents`, with the commits of the log in the place of a catalog's versions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from urllib.parse import unquote

from hipslake.storage.folder import Storage
from hipslake.tables.delta.delta_actions import Action, parsed, write_in
from hipslake.tables.delta.delta_files import DATA
from hipslake.tables.delta.delta_log import DeltaLog, LogState, commit_path
from hipslake.tables.delta.delta_vectors import VECTORS, vector_path
from hipslake.versions.heartbeat import Heartbeat, StoreClock, claim_write, stale_seconds
from hipslake.versions.intents import INTENTS, CommitFiles, delete_settled, fence, may_commit
from hipslake.versions.orphans import delete_temporary_files, is_dead
from hipslake.versions.write_id import is_write_id

log = logging.getLogger(__name__)

WRITES = "_writes"
"""The folder of the writes: engines leave folders alone that begin with an underscore."""


def writes_below(location: str) -> Storage:
    """The storage at the folder of a table's writes."""
    return Storage.at(location).sub(WRITES)


def commit_files(table: DeltaLog) -> CommitFiles:
    """The commits of a log, as the signs of writers and sweepers go by them."""
    return CommitFiles(table.storage, commit_path, _write_of_commit, table.is_taken)


def _write_of_commit(data: bytes, where: str) -> str | None:
    told = (write_in(action["commitInfo"]) for action in parsed(data, where) if "commitInfo" in action)
    return next(told, None)


def claim_delta_write(location: str) -> str:
    """Draw the id of a new write of a table."""
    return claim_write(writes_below(location), datetime.now(UTC))


def beating_write(location: str, write_id: str) -> Heartbeat:
    """What keeps a write from being swept, while its block runs; `confirm` it right before the commit."""
    return Heartbeat(writes_below(location), write_id, rest=False)


def finish_write(table: DeltaLog, write_id: str, kept: Collection[str]) -> None:
    """Remove a write's working files, and data files that are not kept.

    If a commit of it may still be on its way, all stays, for a sweep to look at.

    Parameters
    ----------
    table : DeltaLog
    write_id : str
    kept : collection of str
        Paths in the log of the data files that were committed, and those of deletion vectors: all others are
        leftovers of failed tasks.
    """
    writes = writes_below(table.location)
    if write_id in may_commit(writes, commit_files(table)):
        return
    _delete_data_but(table, write_id, kept)
    writes.delete_tree(write_id)


def sweep_delta_writes(table: DeltaLog, stale_after: float | None = None) -> list[str]:
    """Delete what dead writes have left of a table, and no commit names.

    Parameters
    ----------
    table : DeltaLog
    stale_after : float, optional
        Seconds of silence after which a write counts as dead; None is `HIPSLAKE_STALE_SECONDS`, default 300.

    Returns
    -------
    list of str
        The paths that were removed, relative to the table's location.
    """
    writes = writes_below(table.location)
    limit = stale_seconds() if stale_after is None else stale_after
    folders = [entry.path for entry in writes.list() if entry.is_dir and is_write_id(entry.path)]
    clock = StoreClock(writes)
    delete_temporary_files(writes, INTENTS, limit, clock)  # of processes that were killed as they put one up
    dead = [folder for folder in folders if is_dead(writes, folder, limit, clock)]
    gone = fence(writes, dead, commit_files(table))
    removed = []
    if gone:
        named = named_by(table, gone)  # only what is read after the fence counts
        for folder in sorted(gone):
            removed += _delete_data_but(table, folder, named[folder])
            writes.delete_tree(folder)
            log.info("Table %s: swept write %s, which died.", table.location, folder)
    delete_settled(writes, commit_files(table))
    return sorted(removed)


def sweep_after_commit(table: DeltaLog, stale_after: float | None = None) -> list[str]:
    """Sweep what a sweep has left since a commit might have been on its way; to be called after a commit.

    Parameters and result are as of `sweep_delta_writes`.
    """
    return sweep_delta_writes(table, stale_after) if writes_below(table.location).list(INTENTS) else []


def living_delta_writes(location: str) -> list[str]:
    """The ids of the writes that are at work on a table."""
    writes = writes_below(location)
    folders = [entry.path for entry in writes.list() if entry.is_dir and is_write_id(entry.path)]
    clock = StoreClock(writes)
    return [folder for folder in folders if not is_dead(writes, folder, stale_seconds(), clock)]


def named_by(table: DeltaLog, writes: Collection[str]) -> dict[str, set[str]]:
    """By write, the paths in its folder that the log names: live, removed, or in an older version."""
    found: dict[str, set[str]] = {write: set() for write in writes}
    for path in files_named(table, [] if (state := table.newest()) is None else [state]):
        parts = path.split("/")
        if len(parts) > 2 and parts[0] in (DATA, VECTORS) and parts[1] in found:
            found[parts[1]].add(path)
    return found


def files_named(table: DeltaLog, states: Iterable[LogState]) -> set[str]:
    """The paths of data files and of files of deletion vectors, in some states and in all commits."""
    told: list[Action] = [
        each for state in states for each in (*state.files.values(), *state.removed.values())
    ]
    for _, actions in table.commits():
        told += [each for action in actions for each in (action.get("add"), action.get("remove")) if each]
    vectors = (vector_path(each) for each in told)
    return {*(each["path"] for each in told), *(path for path in vectors if path is not None)}


def _delete_data_but(table: DeltaLog, write_id: str, kept: Collection[str]) -> list[str]:
    """Delete the data files and vectors of a write, but for some; return the paths of those that went."""
    names = {unquote(path) for path in kept}
    removed = []
    for part in (DATA, VECTORS):
        root = table.storage.sub(part)
        folder = root.sub(write_id)
        for entry in [*folder.list(recursive=True), *folder.unfinished(recursive=True)]:
            path = f"{part}/{write_id}/{entry.path}"
            if not entry.is_dir and path not in names:
                folder.delete(entry.path)
                removed.append(path)
        if not any(not entry.is_dir for entry in folder.list(recursive=True)):
            root.delete_tree(write_id)
    return removed
