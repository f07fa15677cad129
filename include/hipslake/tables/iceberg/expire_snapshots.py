"""The vacuum of a table: old snapshots go, and every file that no snapshot names any more.

Engines call the first half `expire_snapshots`. Files go after the commit that drops the snapshots; which they
are is noted before it, so that a vacuum which is killed between the two is completed by the next run that
sweeps the table.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotsUpdate

from hipslake.errors import ConflictError, SpecError
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.addresses import normal_address
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.folder import Storage
from hipslake.tables.iceberg.branches import snapshots_apart
from hipslake.tables.iceberg.catalog_answers import CATALOG_FAILURES, unknown_outcome
from hipslake.tables.iceberg.catalogs import open_table, without_client_retries
from hipslake.tables.iceberg.commit import (
    FIRST_WAIT,
    LONGEST_WAIT,
    looked_for,
    retracted,
)
from hipslake.tables.iceberg.commit_attempts import announce_attempt
from hipslake.tables.iceberg.metadata_files import version_of
from hipslake.tables.iceberg.orphan_files import orphan_files
from hipslake.tables.iceberg.stored_marks import true_properties
from hipslake.tables.iceberg.write_folders import (
    claim,
    delete_unneeded,
    finish,
    heartbeat,
    keep_unneeded,
    living_writes,
    named_files,
    oldest_logged,
    sweep_writes,
)
from hipslake.tables.old_files import OrphanFile
from hipslake.tables.protocol import TableVacuumOutcome
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.write_id import write_time

log = logging.getLogger(__name__)

TRIES = 30
DELETES_FILES = "gc.enabled"
"""Iceberg's property of a table: whether files that its snapshots no more name may be deleted."""


def vacuum_table(
    catalog: Catalog,
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
    catalog : pyiceberg.catalog.Catalog
    name : str
        Of the table.
    retention : Retention
        A snapshot also stays where a tag names it or a branch has it, and while a write goes on that began
        when it was the newest.
    now : datetime
        The time to which ages are counted.
    dry_run : bool
        Only say what would be done, as things stand.
    orphan_days : float, optional
        Delete also files in the table's folders that were never committed and are older than that, whoever
        wrote them: see `hipslake.tables.iceberg.orphan_files`.

    Raises
    ------
    SpecError
        There is no such table; or its property `gc.enabled` says that its files may be those of others too.
    ConflictError
        Others kept committing first.
    StorageError
        Catalog or store do not answer; what is left to do is done by the next vacuum.
    CommitStateUnknownError
        The catalog does not say whether the snapshots went; the next vacuum finds out.
    """
    _check_deletable(open_table(catalog, name))
    if dry_run:
        table = open_table(catalog, name)
        gone = _expired(table, retention, now)
        unneeded = [*_unneeded(table, gone), *_forgotten(table)]
        sizes = [_size(path) for path in unneeded]
        orphans = _orphans(catalog, name, orphan_days, but=unneeded)
        return _outcome(table, gone, orphans, dry_run=True, files=len(sizes), bytes=sum(sizes))
    swept = sweep_writes(catalog, name)
    table = open_table(catalog, name)
    write_id = claim(table)
    with heartbeat(table, write_id) as beating:
        before, gone = table, _expired(table, retention, now, but=write_id)
        noted: set[str] = set()  # also by tries before
        for attempt in range(1, TRIES + 1):
            noted |= set(_unneeded(table, gone))
            keep_unneeded(table, write_id, noted)
            if not gone or _dropped(table, write_id, gone, beating):
                break
            log.info("Table %s was changed by another writer; trying again (%d).", name, attempt)
            wait_for_others(attempt, first=FIRST_WAIT, longest=LONGEST_WAIT)
            before = table = open_table(catalog, name)
            gone = _expired(table, retention, now, but=write_id)
        else:
            raise ConflictError(f"table {name}: others committed first {TRIES} times; try again later")
        table = open_table(catalog, name)
        removed = delete_unneeded(table, write_id, named_files(table).all)
        keep_unneeded(table, write_id, _forgotten(table))
        removed += delete_unneeded(table, write_id, named_files(table).metadata)
    finish(table, write_id, (), attempts=1)
    orphans = _orphans(catalog, name, orphan_days)
    for orphan in orphans:
        with suppress(FileNotFoundError):
            orphan.root.delete(orphan.path)
    size = sum(size for _, size in removed)
    return _outcome(before, gone, orphans, dry_run=False, files=len(removed), bytes=size, swept=tuple(swept))


def _check_deletable(table: Table) -> None:
    if table.properties.get(DELETES_FILES, "true").strip().lower() == "false":
        raise SpecError(
            f"table {'.'.join(table.name())}: its property {DELETES_FILES} is false, so that its files are "
            "not to be deleted: other tables may name them too; set it to true if none does"
        )


def _orphans(catalog: Catalog, name: str, days: float | None, but: Sequence[str] = ()) -> list[OrphanFile]:
    if days is None:
        return []
    others = {normal_address(path) for path in but}
    found = orphan_files(catalog, name, days)
    return [orphan for orphan in found if normal_address(orphan.uri) not in others]


def _outcome(
    table: Table, gone: Sequence[Snapshot], orphans: Sequence[OrphanFile], **told: Any
) -> TableVacuumOutcome:
    expired = {snapshot.snapshot_id for snapshot in gone}
    ids = [snapshot.snapshot_id for snapshot in _by_age(table)]
    kept = tuple(number for number in ids if number not in expired)
    return TableVacuumOutcome(
        kept=kept,
        expired=tuple(number for number in ids if number in expired),
        orphans=tuple(orphan.uri for orphan in orphans),
        orphan_bytes=sum(orphan.bytes for orphan in orphans),
        **told,
    )


def _by_age(table: Table) -> list[Snapshot]:
    return sorted(table.snapshots(), key=lambda snapshot: (snapshot.timestamp_ms, snapshot.sequence_number))


def _expired(table: Table, retention: Retention, now: datetime, *, but: str = "") -> list[Snapshot]:
    """The snapshots that have to go; `but` is the vacuum's own write, which reads none."""
    named, apart = {ref.snapshot_id for ref in table.refs().values()}, snapshots_apart(table)
    others = [write_time(write) for write in living_writes(table) if write != but]
    # A write under way reads the snapshot that was the newest when it began; its id has the minute of that.
    until = min([now - timedelta(days=retention.keep_days), *others]).timestamp() * 1000
    line = [snapshot for snapshot in _by_age(table) if snapshot.snapshot_id not in apart]
    followed = list(pairwise(line))[: -retention.keep_versions + 1 or None]
    return [
        snapshot
        for snapshot, successor in followed
        if successor.timestamp_ms <= until and snapshot.snapshot_id not in named
    ]


def _dropped(table: Table, write_id: str, gone: Sequence[Snapshot], beating: Heartbeat) -> bool:
    """Ask for snapshots to be dropped; False if another writer was first."""
    ids = {snapshot.snapshot_id for snapshot in gone}

    def dropped(now: Table) -> bool:
        return ids.isdisjoint(snapshot.snapshot_id for snapshot in now.snapshots())

    announced = announce_attempt(table, write_id, ids)
    try:
        with retracted(table, announced):
            beating.confirm()
            _drop(table, gone)
    except CommitFailedException:
        return False
    except CATALOG_FAILURES as error:
        if not looked_for(table, "snapshots were dropped", error, dropped):
            raise unknown_outcome(table, "the snapshots are still there", error) from error
    return True


def _drop(table: Table, gone: Sequence[Snapshot]) -> None:
    """Take snapshots out of a table, unless a branch or a tag has moved since it was read."""
    requirements = tuple(
        AssertRefSnapshotId(ref=name, **{"snapshot-id": ref.snapshot_id})
        for name, ref in table.refs().items()
    )
    ids = [snapshot.snapshot_id for snapshot in gone]
    corrected = true_properties(table)  # while the snapshots are there that tell what was rolled back
    with without_client_retries(table).transaction() as transaction:
        corrected.apply(transaction)
        transaction._apply((RemoveSnapshotsUpdate(**{"snapshot-ids": ids}),), requirements)


def _unneeded(table: Table, gone: Sequence[Snapshot]) -> list[str]:
    """The files that only some snapshots name."""
    if not gone:
        return []
    dropped = {snapshot.snapshot_id for snapshot in gone}
    stay = [snapshot for snapshot in table.snapshots() if snapshot.snapshot_id not in dropped]
    standing = {normal_address(path) for path in named_files(table, stay).all}
    return sorted(path for path in named_files(table, gone).all if normal_address(path) not in standing)


def _forgotten(table: Table) -> list[str]:
    """Metadata files that dropped off the table's log of them: no reader is led to one any more.

    Of the table's own folder: one that `write.metadata.path` names may have those of other tables.
    """
    oldest = oldest_logged(table)
    location = f"{table.location().rstrip('/')}/metadata"
    names = [entry.path for entry in Storage.at(location).list() if entry.path.endswith(".metadata.json")]
    return [f"{location}/{name}" for name in sorted(names) if 0 <= version_of(name) < oldest]


def _size(path: str) -> int:
    storage, name = Storage.of_file(path)
    try:
        return storage.entry(name).size
    except FileNotFoundError:
        return 0
