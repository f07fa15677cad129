"""The vacuum of a table: old snapshots go, and every file that no snapshot names any more.

Engines call the first half `expire_snapshots`. Files go after the commit that drops the snapshots; which they
are is noted before it, so that a vacuum which is killed between the two is completed by the next run that
sweeps the table.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotsUpdate

from hipslake.errors import ConflictError, StorageError
from hipslake.specs.base import Frozen
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.addresses import normal_address
from hipslake.storage.folder import Storage
from hipslake.tables.attempts import announce_attempt, retract_attempt
from hipslake.tables.catalogs import open_table, told_of, version_of
from hipslake.tables.commit import asked_once, looked_for
from hipslake.tables.commit_failures import CATALOG_FAILURES, refusal, unknown_outcome
from hipslake.tables.named_files import named_files, oldest_logged
from hipslake.tables.sunk import true_properties
from hipslake.tables.writes import (
    claim,
    delete_unneeded,
    finish,
    heartbeat,
    keep_unneeded,
    living_writes,
    sweep_writes,
)
from hipslake.versions.heartbeat import Heartbeat
from hipslake.versions.write_id import write_time

log = logging.getLogger(__name__)

TRIES = 30
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0  # seconds


class TableVacuumOutcome(Frozen):
    """What a vacuum of a table did; a dry run: what it would have done."""

    dry_run: bool
    kept: tuple[int, ...]  # ids of the snapshots that can be read, from old to new
    expired: tuple[int, ...]  # and of those that went
    files: int = 0  # that were deleted
    bytes: int = 0
    swept: tuple[str, ...] = ()  # what dead writes had left, relative to the table's location


def vacuum_table(
    catalog: Catalog, name: str, retention: Retention, *, now: datetime, dry_run: bool = True
) -> TableVacuumOutcome:
    """Vacuum a table.

    Parameters
    ----------
    catalog : pyiceberg.catalog.Catalog
    name : str
        Of the table.
    retention : Retention
        A snapshot also stays where a branch or a tag names it, and while a write goes on that began when it
        was the newest.
    now : datetime
        The time to which ages are counted.
    dry_run : bool
        Only say what would be done, as things stand.

    Raises
    ------
    SpecError
        There is no such table.
    ConflictError
        Others kept committing first.
    StorageError
        Catalog or store do not answer; what is left to do is done by the next vacuum.
    CommitStateUnknownError
        The catalog does not say whether the snapshots went; the next vacuum finds out.
    """
    if dry_run:
        table = open_table(catalog, name)
        gone = _expired(table, retention, now)
        unneeded = [*_unneeded(table, gone), *_forgotten(table)]
        sizes = [_size(path) for path in unneeded]
        return _outcome(table, gone, dry_run=True, files=len(sizes), bytes=sum(sizes))
    swept = sweep_writes(catalog, name)
    table = open_table(catalog, name)
    write_id = claim(table)
    with heartbeat(table, write_id) as beating:
        before, gone = table, _expired(table, retention, now, but=write_id)
        noted: set[str] = set()  # also by tries before
        for attempt in range(1, TRIES + 1):
            noted |= set(_unneeded(table, gone))
            keep_unneeded(table, write_id, noted)
            if not gone or _dropped(catalog, table, write_id, gone, beating):
                break
            log.info("Table %s was changed by another writer; trying again (%d).", name, attempt)
            time.sleep(min(_FIRST_WAIT * 2 ** (attempt - 1), _LONGEST_WAIT) * random.uniform(0.5, 1.5))
            before = table = open_table(catalog, name)
            gone = _expired(table, retention, now, but=write_id)
        else:
            raise ConflictError(f"table {name}: others committed first {TRIES} times; try again later")
        table = open_table(catalog, name)
        removed = delete_unneeded(table, write_id, named_files(table).all)
        keep_unneeded(table, write_id, _forgotten(table))
        removed += delete_unneeded(table, write_id, named_files(table).metadata)
    finish(table, write_id, (), attempts=1)
    size = sum(size for _, size in removed)
    return _outcome(before, gone, dry_run=False, files=len(removed), bytes=size, swept=tuple(swept))


def _outcome(table: Table, gone: Sequence[Snapshot], *, dry_run: bool, **told: object) -> TableVacuumOutcome:
    expired = {snapshot.snapshot_id for snapshot in gone}
    ids = [snapshot.snapshot_id for snapshot in _by_age(table)]
    return TableVacuumOutcome.model_validate(
        {
            "dry_run": dry_run,
            "kept": tuple(number for number in ids if number not in expired),
            "expired": tuple(number for number in ids if number in expired),
            **told,
        }
    )


def _by_age(table: Table) -> list[Snapshot]:
    return sorted(table.snapshots(), key=lambda snapshot: (snapshot.timestamp_ms, snapshot.sequence_number))


def _expired(table: Table, retention: Retention, now: datetime, *, but: str = "") -> list[Snapshot]:
    """The snapshots that have to go; `but` is the vacuum's own write, which reads none."""
    named = {ref.snapshot_id for ref in table.refs().values()}
    others = [write_time(write) for write in living_writes(table) if write != but]
    # Who is at work reads what was the newest when it began; of its id the minute is known.
    until = min([now - timedelta(days=retention.keep_days), *others]).timestamp() * 1000
    followed = list(pairwise(_by_age(table)))[: -retention.keep_versions + 1 or None]
    return [
        snapshot
        for snapshot, successor in followed
        if successor.timestamp_ms <= until and snapshot.snapshot_id not in named
    ]


def _dropped(
    catalog: Catalog, table: Table, write_id: str, gone: Sequence[Snapshot], beating: Heartbeat
) -> bool:
    """Ask for snapshots to be dropped; False if another writer was first."""
    name, ids = ".".join(table.name()), {snapshot.snapshot_id for snapshot in gone}
    announced = announce_attempt(table, write_id, ids)
    try:
        beating.confirm()
    except StorageError:  # it was swept
        retract_attempt(table, announced)
        raise
    done = True
    try:
        _drop(table, gone)
    except CommitFailedException:
        done = False
    except CATALOG_FAILURES as error:
        if (refused := refusal(table, error)) is not None:
            retract_attempt(table, announced)
            raise refused from error
        log.warning(
            "Table %s: whether snapshots were dropped is not known (%s); looking.",
            name,
            told_of(catalog.name, error),
        )
        if not looked_for(catalog, name, lambda now: ids.isdisjoint(s.snapshot_id for s in now.snapshots())):
            # The attempt stays up: whether the request takes effect some time is not known.
            raise unknown_outcome(table, "the snapshots are still there", error) from error
    retract_attempt(table, announced)
    return done


def _drop(table: Table, gone: Sequence[Snapshot]) -> None:
    """Take snapshots out of a table, unless a branch or a tag has moved since it was read."""
    requirements = tuple(
        AssertRefSnapshotId(ref=name, **{"snapshot-id": ref.snapshot_id})
        for name, ref in table.refs().items()
    )
    ids = [snapshot.snapshot_id for snapshot in gone]
    corrected = true_properties(table)  # while the snapshots are there that tell what was rolled back
    with asked_once(table).transaction() as transaction:
        if corrected.put:
            transaction.set_properties(corrected.put)
        if corrected.removed:
            transaction.remove_properties(*corrected.removed)
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
    """Metadata files that dropped off the table's log of them: no reader is led to one any more."""
    oldest = oldest_logged(table)
    folder = Storage.at(table.location()).sub("metadata")
    names = [entry.path for entry in folder.list() if entry.path.endswith(".metadata.json")]
    location = table.metadata_location.rpartition("/")[0]
    return [f"{location}/{name}" for name in sorted(names) if 0 <= version_of(name) < oldest]


def _size(path: str) -> int:
    folder, _, name = path.rpartition("/")
    try:
        return Storage.at(folder).entry(name).size
    except FileNotFoundError:
        return 0
