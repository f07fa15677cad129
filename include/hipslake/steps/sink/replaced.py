"""What a sink replaces in its table."""

from __future__ import annotations

from dataclasses import dataclass

from hipslake.steps.sink.sink_try import NO_POSITIONS, RowPositions
from hipslake.tables.protocol import LiveFile


@dataclass(frozen=True)
class Replaced:
    """What is replaced: whole files, files of which rows stay, and new rows that later ones replace.

    Attributes
    ----------
    files : tuple of LiveFile
        That go as a whole.
    partly : tuple of (LiveFile, int)
        Files that are rewritten, and how many rows of each stay.
    gone : RowPositions
        Rows of each file of `partly` that go.
    mixed : tuple of (LiveFile, int)
        Files as those of `partly`, of which what stays is written apart from the new rows.
    mixed_gone : RowPositions
        Rows of each file of `mixed` that go.
    deleted : tuple of LiveFile
        Files as those of `partly`, which stay as they are: rows that go are named by files of deletes.
    deleted_gone : RowPositions
        Rows of each file of `deleted` that go.
    dropped : RowPositions
        Rows of each part of the new ones that are left out.
    deleted_rows : int
        Rows of the files of `deleted` that go.
    rows : int
        Of the table, that go.
    left_out : int
        New rows that a later one of the same key replaces.
    by_deletes, missing_deletes, outdated : int
        As of `Joined`.
    read : int
        Files that were looked through.
    """

    files: tuple[LiveFile, ...] = ()
    partly: tuple[tuple[LiveFile, int], ...] = ()
    gone: RowPositions = NO_POSITIONS
    mixed: tuple[tuple[LiveFile, int], ...] = ()
    mixed_gone: RowPositions = NO_POSITIONS
    deleted: tuple[LiveFile, ...] = ()
    deleted_gone: RowPositions = NO_POSITIONS
    deleted_rows: int = 0
    dropped: RowPositions = NO_POSITIONS
    rows: int = 0
    left_out: int = 0
    by_deletes: int = 0
    missing_deletes: int = 0
    outdated: int = 0
    read: int = 0

    @property
    def removed(self) -> list[LiveFile]:
        """All files that the table no longer names."""
        return [*self.files, *(file for file, _ in (*self.partly, *self.mixed))]
