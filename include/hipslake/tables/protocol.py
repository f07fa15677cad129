"""What sinks, compactions and vacuums ask of a table, whatever its format.

`hipslake.tables.opening.open_table` gives a `NamedTable`. Its `TableState` is one version of it: the schema,
the data files with their bounds, and the marks of what was sunk. A `TableWrite` is a change under way, which
one commit makes visible. What readers ask of it is in `hipslake.tables.reading_protocol`, what tasks that
write files ask in `hipslake.tables.writing_protocol`, and what a compaction asks in
`hipslake.tables.compaction_protocol`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from hipslake.clustering.planning import ClusterMark
from hipslake.specs.base import Frozen
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import RowOperation, WriteMode
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.tables.alterations import EvolvingTable, TableAlteration
from hipslake.tables.branch_protocol import BranchedTable
from hipslake.tables.clustering_ledger import ClusteringLedger
from hipslake.tables.compaction_protocol import CompactedTable, WriteUnderWay
from hipslake.tables.marks import SinkMark
from hipslake.tables.new_files import NewFile
from hipslake.tables.reading_protocol import ReadableTable
from hipslake.tables.stored_files import StoredFile
from hipslake.tables.value_sketches import SketchedVersion
from hipslake.tables.writing_protocol import PositionWriter, RowWriter


class LiveFile(Protocol):
    """A data file of a version of a table."""

    @property
    def path(self) -> str:
        """Where it lies."""

    @property
    def rows(self) -> int:
        """How many it holds, also those that are deleted: `stored` has the files that tell which."""

    @property
    def bytes(self) -> int:
        """Its size."""

    @property
    def stored(self) -> StoredFile:
        """What tasks need to read it."""

    @property
    def scope(self) -> Hashable:
        """Its partition, of whatever spec: files of deletes take rows of data files of one scope."""

    @property
    def is_current(self) -> bool:
        """Whether it is partitioned as the table is."""

    @property
    def partition(self) -> tuple[Any, ...]:
        """A value per partition field of the table, times as numbers; only of a file that `is_current`."""

    @property
    def sort_order(self) -> int | None:
        """The table's number of the order that its rows are in; None: of none."""

    def bounds(self, column: str) -> tuple[Any, Any] | None:
        """The lower and upper bound of a column, times as numbers; None if they are not known."""

    def null_count(self, column: str) -> int | None:
        """How many values of a column are null; None if it is not known."""


@dataclass(frozen=True)
class Rewriting:
    """A commit of ours that replaced or removed files with rows that are followed, or a change by others.

    Attributes
    ----------
    version : int
        Of a change by others the last one.
    ours : bool
        Whether it was made by this library.
    removed, added : tuple of int
        Numbers of files. Of a commit of ours only those that may hold rows that are followed; of others
        none that they have taken over from another write of ours (cherry-picked, say).
    """

    version: int
    ours: bool
    removed: tuple[int, ...]
    added: tuple[int, ...]


@dataclass(frozen=True)
class Descent:
    """From the files in which the rows of a write are found first, to those that the table has now.

    Attributes
    ----------
    files : tuple of LiveFile
        All that have to be read, by number.
    first : tuple of int
        Files to begin with: all rows of them are those of the write, or they are among them.
    whole : bool
        Which of both. If not, it has to be known from elsewhere which rows the write brought.
    rewritings : tuple of Rewriting
        In the order of time.
    live : frozenset of int
        Files that the table has now.
    suspects : tuple of int
        Files of others among those of the oldest version, if that is not the one which brought the rows:
        they may hold changed ones.
    """

    files: tuple[LiveFile, ...]
    first: tuple[int, ...]
    whole: bool
    rewritings: tuple[Rewriting, ...]
    live: frozenset[int]
    suspects: tuple[int, ...] = ()


class Marks(Protocol):
    """The marks of the sinks whose rows a version of a table has."""

    @property
    def keys(self) -> list[str]:
        """The keys of all sinks that have a mark."""

    def of(self, key: str) -> SinkMark | None:
        """The mark of a key; None if there is none, or if the sink is too old to have one."""

    def may_stand(self, key: str) -> bool:
        """Whether some sink of a key may stand of which no more is known, as `of` gives none."""

    def was_sunk_earlier(self, key: str, start: datetime | None) -> bool:
        """Whether there was a sink of a key, of an interval, that is too old to be kept by itself."""

    def forgotten_by(self, key: str) -> str:
        """How users make a table forget a sink whose rows they have deleted by hand; "" if they cannot."""


class NewDeletes(NamedTuple):
    """A file that takes rows out of data files, all of one scope."""

    file: NewFile
    of: tuple[LiveFile, ...]


class TableState(ReadableTable, Protocol):
    """One version of a table, for sinks, compactions and vacuums; totals are by its own metadata."""

    @property
    def identifier(self) -> tuple[str, ...]:
        """The identifier columns of the table; empty if it has none."""

    @property
    def files(self) -> Sequence[LiveFile]:
        """The data files."""

    @property
    def column_types(self) -> tuple[tuple[str, str], ...]:
        """The columns with their types as the format calls them."""

    @property
    def marks(self) -> Marks:
        """What was sunk."""

    @property
    def partition(self) -> tuple[PartitionField, ...]:
        """How it is partitioned now; `SpecError` if values of a field cannot be computed."""

    @property
    def clustered_by(self) -> tuple[str, ...]:
        """The columns that its rows are clustered by; empty if it says none."""

    def clustered_suffix(self, by: ClusterMark) -> str:
        """What the names of files end with whose rows are clustered so."""

    @property
    def clustering(self) -> ClusteringLedger | None:
        """What was done to keep it clustered; None if nothing was."""

    @property
    def why_no_deletes(self) -> str:
        """What of the table forbids files that take rows out of data files; "" if it takes such."""

    @property
    def target_bytes(self) -> int | None:
        """The size of data files that the table asks for; None if it asks for none."""

    def write_mode(self, operation: RowOperation) -> WriteMode | None:
        """How an operation changes rows by the properties of the table; None: they do not say it."""

    def at(self, version: int | str) -> TableState:
        """An earlier version, or the one of a tag or a branch; `VersionNotFoundError` if there is none."""

    def check_tag(self, name: str, key: str) -> None:
        """Look that a tag may be set at a sink of a key; `SpecError` if it is of something else."""

    def check_no_delete_files(self, why: str) -> None:
        """Look that no rows are taken out of data files by delete files; raise `PlanError`."""

    def files_of(self, mark: SinkMark) -> Sequence[LiveFile]:
        """The files that hold rows of one sink only."""

    def made_by(self, write_ids: Sequence[str]) -> CommittedChange | None:
        """The version that one of some writes has made; None if there is none, or it has expired."""

    def version_of(self, mark: SinkMark) -> int | None:
        """The version that a sink made; None if it has expired."""

    def descent(self, mark: SinkMark, *, full: bool = False) -> Descent:
        """The way of the rows of a sink; `full`: also through all that others have added since."""

    def sketched(self) -> Iterator[SketchedVersion]:
        """The versions with sketches that this one descends from, itself included, from new to old."""

    def writing(self) -> AbstractContextManager[TableWrite]:
        """Begin a write; what it has written goes if the block ends with a `ConflictError`."""


class CommittedChange(NamedTuple):
    """A version that a write has made, and what it says of itself."""

    version: int
    told: Mapping[str, str]


class CommittedSink(NamedTuple):
    """A sink that was committed."""

    version: int
    attempts: int  # how often the catalog was asked
    swept: tuple[str, ...]  # what dead writes had left
    ndv: Mapping[str, int] = MappingProxyType({})  # by column, how many distinct values the table has


@dataclass(frozen=True)
class WriteChange:
    """What one commit of a write changes: a sink, or a delete of rows.

    Attributes
    ----------
    added : sequence of NewFile
    removed : sequence of LiveFile
        As the version had them that the write began at.
    deletes : sequence of NewDeletes
        What takes rows out of data files that stay.
    mark : SinkMark or None
        Of the sink; None: it is none.
    told : mapping of str to str
        What the version says of itself.
    tag : str or None
        The name of a tag to be set at the version; on a branch, it is set when that is published.
    stays : mapping of str to bytes, or None
        By column, the sketches of all rows that the table keeps from the version that the write began at.
        United with those of the files that are added they are the statistics of the version; None: it has
        none.
    """

    added: Sequence[NewFile]
    removed: Sequence[LiveFile] = ()
    deletes: Sequence[NewDeletes] = ()
    mark: SinkMark | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    tag: str | None = None
    stays: Mapping[str, bytes] | None = None


class TableWrite(WriteUnderWay, Protocol):
    """A write under way, which began at a version of the table."""

    def writer(self, sort: tuple[SortField, ...], ndv: tuple[str, ...] = ()) -> RowWriter:
        """What writes its data files; it sketches the values of the columns `ndv`."""

    def deleter(self) -> PositionWriter:
        """What writes its files of deletes; `SpecError` if the table takes none."""

    def commit(
        self, change: WriteChange, check: Callable[[TableState], None], stale_after: float | None = None
    ) -> CommittedSink:
        """Make a change, all or nothing, on top of whatever version is the newest.

        `check` is asked before each try, and raises if the change does not fit to the version it is given.

        Raises
        ------
        ConflictError
            Files to be removed, or of which rows are to go, are gone, or the schema was changed; or others
            kept committing first.
        CommitStateUnknownError
            The catalog does not say whether the commit stands; nothing that it may name is deleted.
        """


class ShapedTable(NamedTuple):
    """A table that rows fit to."""

    state: TableState
    created: bool
    changes: tuple[TableAlteration, ...]


class TableVacuumOutcome(Frozen):
    """What a vacuum of a table did; a dry run: what it would have done."""

    dry_run: bool
    kept: tuple[int, ...]  # versions that can be read, from old to new
    expired: tuple[int, ...]  # and those that went
    files: int = 0  # that were deleted
    bytes: int = 0
    swept: tuple[str, ...] = ()  # what dead writes had left, relative to the table's location
    orphans: tuple[str, ...] = ()  # files that were never committed
    orphan_bytes: int = 0


class NamedTable(BranchedTable, EvolvingTable, Protocol):
    """A table by its name, whether there is one yet or not; on main, or on a branch."""

    def close(self) -> None:
        """Let go of what was opened for it."""

    def now(self) -> TableState | None:
        """Its newest version; None if there is no such table yet."""

    def existing(self) -> TableState:
        """Its newest version; `SpecError` if there is no such table."""

    def shaped(self, spec: TableSpec, stored: pa.Schema) -> ShapedTable:
        """The table of a spec: made if absent, and changed as it allows where rows (`stored`) do not fit."""

    def sweep(self, stale_after: float | None = None) -> list[str]:
        """Delete what dead writes have left; return the paths below the table's location."""

    def vacuum(
        self, retention: Retention, *, now: datetime, dry_run: bool = True, orphan_days: float | None = None
    ) -> TableVacuumOutcome:
        """Delete old versions, and every file that no version names any more; and, if asked, orphans."""

    def compaction(self, run: Storage, by: ClusterMark | None = None) -> CompactedTable:
        """What a compaction sees.

        Parameters
        ----------
        run : Storage
            The run folder, which remembers the writes of all attempts.
        by : ClusterMark, optional
            What rows are clustered by; by a sort order without columns, by that of the table. Without it,
            files that are written are sorted as the table says.
        """
