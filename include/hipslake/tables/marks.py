"""What a table tells of one sink."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import AwareDatetime

from hipslake.specs.base import Frozen
from hipslake.tables.sink_order import CatalogRows


class SnapshotPlace(NamedTuple):
    """A snapshot's place among all of its table, ascending with the time of the commit.

    Attributes
    ----------
    sequence : int
        Its sequence number; 0 in tables of format version 1, which know none.
    milliseconds : int
        Its time, since 1970 UTC.
    """

    sequence: int
    milliseconds: int


class Sunk(Frozen):
    """One sink that stands in a table.

    With neither write nor digests: a key of which none is known to stand. It was sunk on another line of
    snapshots (`absent_on` is one of this line), or some sink of it may stand here, but nothing tells which.
    """

    key: str  # what the rows are of: `SinkOrder.key`
    fingerprint: str
    content: str  # what decided the rows, whatever the spec made of them
    rows: int  # that were added
    write: str  # id of the write
    at: AwareDatetime | None = None  # when; None: the id of the write says it, to the minute
    start: AwareDatetime | None = None  # of the interval
    end: AwareDatetime | None = None
    whole: bool = False  # of all that a source has: there is one such sink per spec
    source: CatalogRows | None = None  # where these rows can be read again
    alone: bool | None = None  # the files of the write hold its rows only; None: that was not noted
    replaced: Sunk | None = None  # of that key, which stands again after a rollback
    earliest: SnapshotPlace | None = None  # its own snapshot lies here or later
    absent_on: int | None = None  # a snapshot; none of the key stands on what descends from it
    since: SnapshotPlace | None = None  # `earliest` of the first sink of the key
