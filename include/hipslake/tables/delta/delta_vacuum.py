"""The vacuum of a Delta table: old versions go, and the data files that only they have.

Data files go first and the log of the old versions last, so a vacuum that is killed is completed by the next:
the log still says what is left to do.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hipslake.errors import SpecError
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.addresses import normal_address
from hipslake.storage.entry import Entry
from hipslake.storage.folder import Storage
from hipslake.tables.delta.delta_actions import Action, whole_path
from hipslake.tables.delta.delta_checkpoint import write_checkpoint
from hipslake.tables.delta.delta_files import DATA
from hipslake.tables.delta.delta_log import DeltaLog, LogState
from hipslake.tables.delta.delta_protocol import check_delta_writable
from hipslake.tables.delta.delta_vectors import VECTORS, is_vector_file, vector_of
from hipslake.tables.delta.delta_writes import (
    files_named,
    living_delta_writes,
    sweep_delta_writes,
    writes_below,
)
from hipslake.tables.old_files import OrphanFile, is_data_name, old_files
from hipslake.tables.protocol import TableVacuumOutcome
from hipslake.versions.heartbeat import StoreClock
from hipslake.versions.write_id import write_time

log = logging.getLogger(__name__)


def time_of_version(state: LogState) -> datetime:
    """When a version was made, by its commit; where that says nothing, or is gone, when the table was."""
    told = state.infos.get(state.version, {}).get("timestamp") or state.metadata.get("createdTime") or 0
    return datetime.fromtimestamp(int(told) / 1000, UTC)


def times_of_versions(table: DeltaLog, newest: int) -> dict[int, datetime]:
    """When the versions up to one that can be read were made, ascending."""
    commits = {version: _timestamp(actions) for version, actions in table.commits()}
    found, last = {}, 0
    for version in table.versions():
        if version <= newest:
            if version not in commits:  # of which only the checkpoint is there
                last = max(last, int(table.at(version).metadata.get("createdTime") or 0))
            last = max(last, commits.get(version) or 0)  # clocks of writers may differ
            found[version] = datetime.fromtimestamp(last / 1000, UTC)
    return found


def _timestamp(actions: list[Action]) -> int:
    return next(
        (int(each["commitInfo"].get("timestamp") or 0) for each in actions if each.get("commitInfo")), 0
    )


def vacuum_delta(
    table: DeltaLog,
    name: str,
    retention: Retention,
    *,
    now: datetime,
    dry_run: bool = True,
    orphan_days: float | None = None,
) -> TableVacuumOutcome:
    """Vacuum a table.

    Parameters
    ----------
    table : DeltaLog
    name : str
    retention : Retention
        A version also stays while a write goes on that began when it was the newest.
    now : datetime
        The time to which ages are counted.
    dry_run : bool
        Only say what would be done, as things stand.
    orphan_days : float, optional
        Delete also Parquet files and files of deletion vectors in the table's folder that no version has
        named, as far as the log goes back, and that are older than that, whoever wrote them.

    Raises
    ------
    SpecError
        There is no such table.
    PlanError
        The table asks for more of its writers than is done here.
    StorageError
        The store does not answer; what is left to do is done by the next vacuum.
    """
    swept = [] if dry_run else sweep_delta_writes(table)
    state = table.newest()
    if state is None:
        raise SpecError(f"there is no Delta table {name} at {table.location}")
    check_delta_writable(state, name)
    times = times_of_versions(table, state.version)
    oldest = _oldest_kept(table, times, retention, now)
    expired = tuple(version for version in times if version < oldest)
    kept = tuple(version for version in times if version >= oldest)
    sizes = {path: _size(path) for path in _unneeded(table, oldest)} if expired else {}
    found = {path: size for path, size in sizes.items() if size is not None}
    if expired and not dry_run:
        for path in found:
            storage, last = Storage.of_file(path)
            storage.delete(last)
        _forget(table, oldest)
        log.info("Table %s: %d versions expired, %d files went.", name, len(expired), len(found))
    orphans = [] if orphan_days is None else _orphans(table, orphan_days)
    if not dry_run:
        for orphan in orphans:
            orphan.root.delete(orphan.path)
    return TableVacuumOutcome(
        dry_run=dry_run,
        kept=kept,
        expired=expired,
        files=len(found),
        bytes=sum(found.values()),
        swept=tuple(swept),
        orphans=tuple(orphan.uri for orphan in orphans),
        orphan_bytes=sum(orphan.bytes for orphan in orphans),
    )


def _orphans(table: DeltaLog, days: float) -> list[OrphanFile]:
    """Old data files and vectors that the log does not name; none of a write that has not come to its end."""
    listed = [entry for entry in table.storage.list(recursive=True) if _may_be_orphan(entry)]
    # In this order: a file that was listed is of a write that still goes on, or has committed by now.
    writes = writes_below(table.location)
    ids = [entry.path for entry in writes.list() if entry.is_dir]
    going_on = tuple(f"{part}/{each}/" for part in (DATA, VECTORS) for each in ids)
    named = {normal_address(whole_path(table.location, path)) for path in _named(table)}
    unnamed = [
        (table.storage, entry)
        for entry in listed
        if not entry.path.startswith(going_on) and normal_address(table.storage.uri(entry.path)) not in named
    ]
    return old_files(unnamed, StoreClock(writes), days)


def _may_be_orphan(entry: Entry) -> bool:
    if is_vector_file(entry.path):
        return not entry.is_dir and (is_data_name(entry) or entry.path.startswith(f"{VECTORS}/"))
    return is_data_name(entry) and entry.path.endswith(".parquet")


def _named(table: DeltaLog) -> set[str]:
    """All files that the log names, as it does: live, removed, or in an older version."""
    oldest, newest = table.at(table.versions()[0]), table.newest()
    return files_named(table, [state for state in (oldest, newest) if state])


def _oldest_kept(table: DeltaLog, times: dict[int, datetime], retention: Retention, now: datetime) -> int:
    """The oldest version that stays: those after it all do."""
    until = min(
        [now - timedelta(days=retention.keep_days), *map(write_time, living_delta_writes(table.location))]
    )
    versions = list(times)
    followed = list(pairwise(versions))[: -retention.keep_versions + 1 or None]
    gone = [version for version, successor in followed if times[successor] <= until]
    return max(gone, default=versions[0] - 1) + 1


def _unneeded(table: DeltaLog, oldest: int) -> list[str]:
    """The data files that no version from one on has, as far as the log still names them."""
    state = table.at(oldest)
    needed = {path for told in state.files.values() for path in _paths(table, told)}
    known = {path for told in state.removed.values() for path in _paths(table, told)}
    for version, actions in table.commits():
        for action in actions:
            for kind in ("add", "remove"):
                if told := action.get(kind):
                    known.update(_paths(table, told))
                    if kind == "add" and version > oldest:
                        needed.update(_paths(table, told))
    return sorted(known - needed)


def _paths(table: DeltaLog, told: Action) -> list[str]:
    """Where a data file lies, and the file of its deletion vector."""
    vector = vector_of(told, table.location)
    others = [] if vector is None or vector.inline else [vector.path]
    return [whole_path(table.location, told["path"]), *others]


def _forget(table: DeltaLog, oldest: int) -> None:
    """Delete the log of what is before a version, which gets a checkpoint of its own."""
    if oldest not in table.checkpoints():
        write_checkpoint(table, table.at(oldest))
    for version, paths in sorted(table.files_of_log().items()):
        if version < oldest:
            for path in paths:
                table.storage.delete(path)


def _size(path: str) -> int | None:
    storage, name = Storage.of_file(path)
    with suppress(FileNotFoundError):
        return storage.entry(name).size
    return None
