"""Traces the rows of a write through the files of a table, and the commits that have rewritten them.

A file that holds rows of one write only is known by its name, or by what compactions have noted. Elsewhere
rows of several writes lie in one file: compactions mix them, and other engines rewrite them. Then they are
found as a multiset, by value: of the rows that left the table with their files, so many came back as the
files that were added hold. What comes back at no time is deleted, or changed.

Other engines replace rows in one snapshot, in two of one commit (pyiceberg), or in several commits, and may
add first and remove later (merge-on-read). So what lies between two commits of ours counts as one change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from hipslake.errors import PlanError
from hipslake.tables.iceberg.data_files import IcebergFile, has_delete_files
from hipslake.tables.iceberg.metadata_files import entries_of, manifests_of
from hipslake.tables.iceberg.snapshot_history import (
    WRITE_PROPERTY,
    History,
    files_by_write,
    origin_of_each,
    summary_of,
    write_of,
)
from hipslake.tables.iceberg.stored_marks import tells_rows_apart, writes_alone
from hipslake.tables.marks import PREFIX, SinkMark
from hipslake.tables.protocol import Descent, Rewriting
from hipslake.versions.write_id import is_write_id


def descent_of(table: Table, sunk: SinkMark, *, full: bool = False) -> Descent:
    """Find the way of the rows of a sink, as far back as there are snapshots.

    Parameters
    ----------
    table : pyiceberg.table.Table
    sunk : SinkMark
    full : bool
        Whether all that others have added since counts too, in whatever files. That is needed if rows have
        left the table: they may have come back, or been changed.

    Raises
    ------
    PlanError
        This library has merged delete files of others into files with rows of the sink.
    """
    history = _FilesOfSnapshots(table)
    line = list(reversed(History(table).ancestors))
    if not line:
        return Descent((), (), True, (), frozenset())
    begin = next((at for at, each in enumerate(line) if _has_files_of(history.of(each), sunk.write)), 0)
    is_told = begin > 0 or summary_of(line[0]).get(WRITE_PROPERTY) == sunk.write
    files = list(history.of(line[begin]).values())
    pure = files_by_write(table, files, sunk.write)
    # Later on, as many rows of others may have come into its files as it has lost elsewhere.
    whole = sum(file.record_count for file in pure) == sunk.rows and (is_told or sunk.alone is True)
    numbers = _Numbers()
    first = tuple(numbers.of(file) for file in (pure if whole else _candidates(table, files, pure)))
    some = [] if is_told or not full else [file for file in files if not _is_ours(file)]
    suspects = tuple(numbers.of(file) for file in some)
    followed = {file.file_path for file in numbers.files}
    rewritings, last = [], line[begin]
    for change in _changes(line[begin + 1 :]):
        before, last = last, change[-1]
        ours = _is_by_us(last)
        if all(_only_adds(each) for each in change) and (ours or not full):
            continue
        stay = history.of(last)
        taken = followed - stay.keys()
        if not taken and (ours or not full):
            continue
        if ours and taken and has_delete_files(table, before):
            raise PlanError(
                f"table {'.'.join(table.name())}: {sunk.key} was sunk before, from other rows; rows of its "
                f"files were deleted by delete files, which snapshot {last.snapshot_id} has merged, "
                "so it cannot be told which of its rows are deleted and which are changed. Use mode "
                "overwrite-interval or upsert; or delete them from the table by hand, and then its property "
                f"{PREFIX}* with the key {sunk.key}"
            )
        had = history.of(before)
        gone = [file for path, file in had.items() if path not in stay and (path in taken or not ours)]
        came = [file for path, file in stay.items() if path not in had]
        if ours and all(tells_rows_apart(each) for each in change):
            came = [file for file in came if not write_of(file)]  # rows that the sink has found, and kept
        elif not ours:
            came = [file for file in came if not _is_ours(file) or numbers.knows(file)]
        removed, added = (tuple(numbers.of(file) for file in each) for each in (gone, came))
        rewritings.append(Rewriting(last.snapshot_id, ours, removed, added))
        followed = (followed - taken) | {file.file_path for file in came}
    now = history.of(line[-1])
    live = frozenset(number for number, file in enumerate(numbers.files) if file.file_path in now)
    numbered = tuple(IcebergFile(file, table) for file in numbers.files)
    return Descent(numbered, first, whole, tuple(rewritings), live, suspects)


def _is_by_us(snapshot: Snapshot) -> bool:
    return WRITE_PROPERTY in summary_of(snapshot)


def _is_ours(file: DataFile) -> bool:
    """Whether a write of ours made a file: it lies in the folder of one, or in one below that."""
    return any(is_write_id(folder) for folder in file.file_path.split("/")[-3:-1])


def _has_files_of(files: Mapping[str, DataFile], write_id: str) -> bool:
    return any(write_of(file) == write_id for file in files.values())


def _candidates(table: Table, files: Sequence[DataFile], pure: Sequence[DataFile]) -> list[DataFile]:
    """The files that may hold rows of a write: first those that hold no others, then those that are mixed."""
    known, alone = {file.file_path for file in pure}, writes_alone(table)
    origins = zip(files, origin_of_each(table, files), strict=True)
    return [*pure, *(file for file, by in origins if file.file_path not in known and by not in alone)]


def _only_adds(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND


def _changes(line: Sequence[Snapshot]) -> Iterator[list[Snapshot]]:
    """Snapshots of ours one by one, those of others between them together."""
    for ours, some in groupby(line, _is_by_us):
        if ours:
            yield from ([each] for each in some)
        else:
            yield list(some)


@dataclass
class _Numbers:
    """Files, by the numbers that they get."""

    files: list[DataFile] = field(default_factory=list)
    _by_path: dict[str, int] = field(default_factory=dict)

    def of(self, file: DataFile) -> int:
        if file.file_path not in self._by_path:
            self._by_path[file.file_path] = len(self.files)
            self.files.append(file)
        return self._by_path[file.file_path]

    def knows(self, file: DataFile) -> bool:
        """Whether a file has one."""
        return file.file_path in self._by_path


class _FilesOfSnapshots:
    """The live data files of snapshots; each manifest is read once."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._manifests: dict[str, dict[str, DataFile]] = {}

    def of(self, snapshot: Snapshot) -> dict[str, DataFile]:
        """By path."""
        found: dict[str, DataFile] = {}
        for manifest in manifests_of(self._table, snapshot):
            if manifest.content != ManifestContent.DATA:
                continue
            path = manifest.manifest_path
            if path not in self._manifests:
                entries = entries_of(self._table, manifest)
                self._manifests[path] = {entry.data_file.file_path: entry.data_file for entry in entries}
            found |= self._manifests[path]
        return found
