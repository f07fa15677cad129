"""Whether the current snapshot descends from a write, and which files hold the rows of the write.

Properties of a table outlive a rollback, so they do not tell that a write is in the table. A write stands if
its snapshot is an ancestor of the current one, or one that was cherry-picked from it is. Of a snapshot that
has expired, or is cut off since others between have, the catalog says no more; its write stands unless it
was found rolled back before: each commit of a sink or a compaction, and each vacuum, corrects the properties
while the snapshots are there.

A compaction writes rows of other writes into files of its own. If all that it rewrites is of one write, it
says so in a property, and these files are found as that write's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV1
from pyiceberg.table.snapshots import Snapshot

from hipslake.tables.marks import SnapshotPlace
from hipslake.versions.write_id import is_write_id

REWRITTEN = "hipslake.rewritten."
"""Properties: the write that brought all rows of the files of a compaction, whose write the name has."""
WRITE_PROPERTY = "hipslake.write"
"""In the summary of a snapshot: the write whose files it added."""
_PICKED_FROM = "source-snapshot-id"  # Iceberg's: of a snapshot that was cherry-picked

START = SnapshotPlace(0, 0)
"""No snapshot lies before it."""


class History:
    """The snapshots that a table's current one descends from, and those that it does not.

    Parameters
    ----------
    table : pyiceberg.table.Table

    Attributes
    ----------
    ancestors : list of Snapshot
        The current one first.
    made : list of Snapshot
        The same, but for those that were cherry-picked: in their place the ones that these were made of.
    left : list of Snapshot
        Those that are no ancestors, as far as that is known.
    """

    def __init__(self, table: Table) -> None:
        self.ancestors = ancestors_of(table, table.metadata.current_snapshot_id)
        self.made = [_picked_from(table, snapshot) or snapshot for snapshot in self.ancestors]
        line = {snapshot.snapshot_id for snapshot in self.ancestors}
        reached = line | {snapshot.snapshot_id for snapshot in self.made}
        self.left = [each for each in table.snapshots() if each.snapshot_id not in line]
        line_of = zip(self.ancestors, self.made, strict=True)
        lost = any(made is snapshot and _PICKED_FROM in summary_of(snapshot) for snapshot, made in line_of)
        self._known_from, self._knows_picked = _known_from(table, self.ancestors), not lost
        by_write: dict[str, bool] = {}
        for snapshot in table.snapshots():
            is_reached = snapshot.snapshot_id in reached
            if not is_reached and place_of(snapshot) < self._known_from:
                continue  # what lay between has expired, so whether it is an ancestor is not known
            if write := summary_of(snapshot).get(WRITE_PROPERTY):
                by_write[write] = by_write.get(write, False) or is_reached
        self._stands = by_write

    def covers(self, place: SnapshotPlace) -> bool:
        """Whether all writes are known that stand and have their snapshot at a place or after it."""
        return self._knows_picked and place >= self._known_from

    def may_descend_from(self, snapshot_id: int) -> bool:
        """Whether the current snapshot descends from one, or that one has expired."""
        return all(each.snapshot_id != snapshot_id for each in self.left)

    def rolled_back(self, write_id: str) -> bool:
        """Whether a write has a snapshot, and the current one does not descend from it."""
        return not self._stands.get(write_id, True)

    def knows(self, write_id: str) -> bool:
        """Whether the snapshots determine if a write is part of the table."""
        return write_id in self._stands


def place_of(snapshot: Snapshot) -> SnapshotPlace:
    """A snapshot's place among all of its table."""
    return SnapshotPlace(snapshot.sequence_number or 0, snapshot.timestamp_ms)


def next_place(table: Table) -> SnapshotPlace:
    """The first place that a snapshot to come can have."""
    metadata = table.metadata
    if not isinstance(metadata, TableMetadataV1):
        return SnapshotPlace(metadata.last_sequence_number + 1, 0)
    current = table.current_snapshot()
    return START if current is None else place_of(current)


def _picked_from(table: Table, snapshot: Snapshot) -> Snapshot | None:
    number = summary_of(snapshot).get(_PICKED_FROM)
    return table.snapshot_by_id(int(number)) if number else None


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    """The properties in the summary of a snapshot."""
    return snapshot.summary.additional_properties if snapshot.summary is not None else {}


def files_by_write(table: Table, files: Iterable[DataFile], write_id: str) -> list[DataFile]:
    """The files that hold rows of one write only: its own, and what compactions have made of them."""
    writes = {write_id}
    origins = _origins(table)
    while more := {name for name, origin in origins.items() if origin in writes} - writes:
        writes |= more
    return [file for file in files if write_of(file) in writes]


def origin(table: Table, files: Iterable[DataFile]) -> str | None:
    """The write that brought all rows of some files; None if there are several, or it is not known."""
    found = set(origin_of_each(table, files))
    return brought_by if len(found) == 1 and is_write_id(brought_by := found.pop() or "") else None


def origin_of_each(table: Table, files: Iterable[DataFile]) -> list[str | None]:
    """The write that brought the rows of each file, as far as that is one, and known."""
    origins = _origins(table)
    return [_followed(write_of(file), origins) for file in files]


def forgotten_origins(table: Table, files: Iterable[DataFile]) -> tuple[str, ...]:
    """Properties about compactions that have neither files nor a snapshot any more."""
    history, live = History(table), {write_of(file) for file in files}
    return tuple(REWRITTEN + name for name in _origins(table) if name not in live and not history.knows(name))


def write_of(file: DataFile) -> str:
    """The write whose rows a file holds, by the name of its folder; "" if that is no write id.

    Files in a folder below that of a write hold rows that the write found in the table.
    """
    folder = file.file_path.split("/")[-2:-1]
    return folder[0] if folder and is_write_id(folder[0]) else ""


def _followed(write_id: str, origins: Mapping[str, str]) -> str | None:
    seen = set()
    while write_id in origins and write_id not in seen:
        seen.add(write_id)
        write_id = origins[write_id]
    return write_id or None


def _origins(table: Table) -> dict[str, str]:
    return {
        name.removeprefix(REWRITTEN): value
        for name, value in table.properties.items()
        if name.startswith(REWRITTEN)
    }


def _known_from(table: Table, ancestors: list[Snapshot]) -> SnapshotPlace:
    """From where on it is known of each write whether it stands.

    From the oldest ancestor on that has not expired; and in the stretch of the newest snapshots of which none
    has, which sequence numbers tell: no ancestor was lost there. That the oldest has no parent tells nothing,
    as pyiceberg takes it away when the parent expires.
    """
    if not ancestors:
        return START
    oldest = place_of(ancestors[-1])
    if oldest.sequence == 0:
        return oldest
    there = {snapshot.sequence_number for snapshot in table.snapshots()}
    first = next_place(table).sequence
    while first > 1 and first - 1 in there:
        first -= 1
    return SnapshotPlace(min(oldest.sequence, first), 0)


def ancestors_of(table: Table, number: int | None) -> list[Snapshot]:
    """A snapshot, and those that it descends from as far as they have not expired, from new to old."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    found: list[Snapshot] = []
    while number is not None and number in by_id:
        found.append(by_id.pop(number))
        number = found[-1].parent_snapshot_id
    return found
