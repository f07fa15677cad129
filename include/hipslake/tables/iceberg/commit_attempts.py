"""Attempts at a commit: files by which a writer protects its data while a request to the catalog is open.

A request may take effect at any time after it was made: the network holds it, or the process is stopped. So
writer and sweeper each put up a sign of their own before they look for the other's, as for catalogs
(`hipslake.versions.intents`). The writer puts up an attempt, `_versions/attempts/<write id>.<random>.json` in
the folder of the table's writes, then looks for the mark of a sweeper, then asks the catalog. It takes the
attempt back once it knows the outcome, and not before. The sweeper puts up the mark, lists the attempts, and
then reads the table.

An attempt is *open* as long as the catalog may accept it. A snapshot is accepted on top of the one that it
was made for, and with a sequence number that is greater than the table's last one. That number never falls,
not by a rollback either: once it has grown, the attempt stands or has failed. Tables of format version 1 have
no such numbers; there an attempt is open as long as the table has the snapshot that it was made for. The
first snapshot of a table is accepted with any number, as long as there is none. An attempt that only drops
snapshots has also come to its end once they are gone.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection
from typing import NamedTuple

from pyiceberg.table import Table

from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json

WRITES = "_writes"
ATTEMPTS = "_versions/attempts"
"""The folder of the attempts, in that of a table's writes."""

_NAME = re.compile(rf"{ATTEMPTS}/([0-9A-Za-z-]+)\.[0-9a-f]{{8}}\.json")


def writes_of(table: Table) -> Storage:
    """The storage at the folder of a table's writes."""
    return Storage.at(table.location()).sub(WRITES)


class CommitAttempt(NamedTuple):
    """An attempt at a commit.

    Attributes
    ----------
    write_id : str
    path : str
        In the folder of the table's writes.
    """

    write_id: str
    path: str


def announce_attempt(table: Table, write_id: str, dropped: Collection[int] = ()) -> CommitAttempt:
    """Put up an attempt; to be called before the last look for a mark.

    Parameters
    ----------
    table : pyiceberg.table.Table
        As it is read for the attempt.
    write_id : str
    dropped : collection of int
        The ids of snapshots that it drops, if it is for nothing else.
    """
    path = f"{ATTEMPTS}/{write_id}.{secrets.token_hex(4)}.json"
    told = {
        "sequence": _last_number(table),
        "snapshot": table.metadata.current_snapshot_id,
        "dropped": sorted(dropped),
    }
    writes_of(table).write(path, json.dumps(told).encode(), durable=False)
    return CommitAttempt(write_id, path)


def retract_attempt(table: Table, attempt: CommitAttempt) -> None:
    """Take an attempt back whose outcome is known."""
    writes_of(table).delete(attempt.path)


def attempts_of(table: Table) -> list[CommitAttempt]:
    """All attempts that are put up at a table."""
    found = ((_NAME.fullmatch(entry.path), entry.path) for entry in writes_of(table).list(ATTEMPTS))
    return [CommitAttempt(match[1], path) for match, path in found if match]


def open_attempts(table: Table, attempts: Collection[CommitAttempt]) -> set[str]:
    """The writes among those of some attempts that the catalog may still accept.

    Parameters
    ----------
    table : pyiceberg.table.Table
        As it was read after the attempts were listed.
    attempts : collection of CommitAttempt
    """
    return {attempt.write_id for attempt in attempts if _is_open(table, attempt)}


def _is_open(table: Table, attempt: CommitAttempt) -> bool:
    try:
        told = plain_json(writes_of(table).read(attempt.path))
        sequence, snapshot = int(told["sequence"]), told["snapshot"]
        dropped = {int(number) for number in told.get("dropped", ())}
    except FileNotFoundError:
        return False  # taken back
    except (ValueError, TypeError, KeyError):
        return True  # half of it: its writer may be about to write the rest
    if dropped and not any(each.snapshot_id in dropped for each in table.snapshots()):
        return False
    if snapshot is None:
        return table.metadata.current_snapshot_id is None
    if table.metadata.format_version >= 2:
        return _last_number(table) <= sequence
    return table.snapshot_by_id(snapshot) is not None


def _last_number(table: Table) -> int:
    """The sequence number of the newest snapshot that a table has had; 0 in format version 1."""
    return int(getattr(table.metadata, "last_sequence_number", 0))
