"""Where a write stands: whether the current snapshot descends from it, and in which files its rows are.

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
from pyiceberg.table.snapshots import Snapshot

from hipslake.versions.write_id import is_write_id

REWRITTEN = "hipslake.rewritten."
"""Properties: the write that brought all rows of the files of a compaction, whose write the name has."""
WRITE_PROPERTY = "hipslake.write"
"""In the summary of a snapshot: the write whose files it added."""
_PICKED_FROM = "source-snapshot-id"  # Iceberg's: of a snapshot that was cherry-picked


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
    """

    def __init__(self, table: Table) -> None:
        self.ancestors = _ancestors(table)
        self.made = [_picked_from(table, snapshot) or snapshot for snapshot in self.ancestors]
        reached = {snapshot.snapshot_id for snapshot in (*self.ancestors, *self.made)}
        end = _age(self.ancestors[-1]) if self.ancestors else (0, 0)
        by_write: dict[str, bool] = {}
        for snapshot in table.snapshots():
            is_reached = snapshot.snapshot_id in reached
            if not is_reached and _age(snapshot) < end:
                continue  # what lay between has expired, so whether it is an ancestor is not known
            if write := summary_of(snapshot).get(WRITE_PROPERTY):
                by_write[write] = by_write.get(write, False) or is_reached
        self._stands = by_write

    def rolled_back(self, write_id: str) -> bool:
        """Whether a write has a snapshot, and the current one does not descend from it."""
        return not self._stands.get(write_id, True)

    def knows(self, write_id: str) -> bool:
        """Whether the snapshots tell whether a write stands."""
        return write_id in self._stands


def _age(snapshot: Snapshot) -> tuple[int, int]:
    """Ascending with the time of the commit; tables of format version 1 know no sequence numbers."""
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def _picked_from(table: Table, snapshot: Snapshot) -> Snapshot | None:
    number = summary_of(snapshot).get(_PICKED_FROM)
    return table.snapshot_by_id(int(number)) if number else None


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    """What a snapshot says of itself."""
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
    origins = _origins(table)
    found = {_followed(write_of(file), origins) for file in files}
    return brought_by if len(found) == 1 and is_write_id(brought_by := found.pop() or "") else None


def origin_of_each(table: Table, files: Iterable[DataFile]) -> list[str | None]:
    """The write that brought the rows of each file, as far as that is one, and known."""
    origins = _origins(table)
    return [_followed(write_of(file), origins) for file in files]


def forgotten_origins(table: Table, files: Iterable[DataFile]) -> tuple[str, ...]:
    """Properties that tell of compactions of which there are neither files nor a snapshot any more."""
    history, live = History(table), {write_of(file) for file in files}
    return tuple(REWRITTEN + name for name in _origins(table) if name not in live and not history.knows(name))


def write_of(file: DataFile) -> str:
    """The write that a file holds rows of, by the folder that it lies in; "" if that is not told.

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


def _ancestors(table: Table) -> list[Snapshot]:
    """The current snapshot, and those that it descends from as far as they have not expired."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    found: list[Snapshot] = []
    number = table.metadata.current_snapshot_id
    while number is not None and number in by_id:
        found.append(by_id.pop(number))
        number = found[-1].parent_snapshot_id
    return found
