"""What a compaction asks of a table, or of a plain folder of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from hipslake.clustering.planning import ClusterMark, TableFile
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.storage.folder import Storage
from hipslake.tables.clustering_ledger import ClusteringPoint, CountedLedger
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_values import RowSum


class Share(NamedTuple):
    """A part of a file's row groups: the `number`th of `total` that are about equal."""

    number: int = 0
    total: int = 1

    def of(self, row_groups: int) -> range:
        """The row groups that belong to it, of so many."""
        return range(row_groups * self.number // self.total, row_groups * (self.number + 1) // self.total)


WHOLE = Share()


class FileAccess(Protocol):
    """How tasks read and write files. It travels to them, so it is small."""

    def read(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> Iterator[pa.RecordBatch]:
        """The rows of a file, or of a share of it, that are not deleted, always in the same order."""

    def read_summed(
        self, path: str, columns: Sequence[str], share: Share = WHOLE
    ) -> Iterator[tuple[pa.RecordBatch, RowSum]]:
        """As `read`, and with each batch a part of what `checksum` gives: all of them are the whole."""

    def alike(self, path: str, columns: Sequence[str]) -> tuple[int, ...]:
        """The rows of each row group of a file, if all span about the same values in some columns."""

    def deleted(self, path: str, share: Share = WHOLE) -> int:
        """How many rows of a file, or of a share of it, are deleted."""

    def checksum(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> RowSum:
        """The checksum of a file, or of a share of it, by its values as they are stored."""

    def write(self, rows: pa.Table, partition: str, name: str, mark: ClusterMark | None) -> NewFile:
        """Write a file. Its name tells it apart from others of the write; written again, it is replaced."""


class WriteUnderWay(Protocol):
    """A write that has begun."""

    @property
    def write_id(self) -> str:
        """Names the write."""

    @property
    def work(self) -> Storage:
        """A folder for temporary files; it is deleted with the write, also after the write was killed."""


class ColumnBounds(NamedTuple):
    """The bounds of a column in some files, one after another.

    Attributes
    ----------
    low, high : list
        Values, times as numbers; None where they are not known.
    empty : list of bool
        Whether a file has no value in the column.
    """

    low: list[Any]
    high: list[Any]
    empty: list[bool]


class FileExchange(NamedTuple):
    """Files that take the place of others, which have the same rows."""

    added: tuple[NewFile, ...]
    removed: tuple[TableFile, ...]


class CommittedExchanges(NamedTuple):
    """What of some exchanges was committed.

    Attributes
    ----------
    version : str
        Of the table, which this has made.
    refused : dict of int to str
        The places of those that were left out, since others had changed their files; and what was changed.
    """

    version: str
    refused: dict[int, str]


class MergedManifests(NamedTuple):
    """What became of the manifests of a table.

    Attributes
    ----------
    before, after : int
        How many there are.
    version : str
        The snapshot that has them; "" if nothing was to do.
    """

    before: int
    after: int
    version: str


class Rewrite(WriteUnderWay, Protocol):
    """A change of a table that is under way."""

    @property
    def access(self) -> FileAccess:
        """For the tasks; it knows the partitions that were added."""

    def add_partitions(self, values: Sequence[tuple[Any, ...]]) -> list[str]:
        """The names of partitions that files are to be written into, by their values, one per field."""

    def commit(
        self,
        exchanges: Sequence[FileExchange],
        point: Callable[[Sequence[FileExchange]], ClusteringPoint] | None = None,
        stepped: int = 0,
    ) -> CommittedExchanges:
        """Replace files by others, in one version; each exchange as a whole, or not at all.

        Parameters
        ----------
        exchanges : sequence of FileExchange
        point : callable, optional
            What the table is to remember of a run that keeps it clustered, of the exchanges that are made.
        stepped : int
            How many bytes it might rewrite on account of what was clustered otherwise before.

        Raises
        ------
        ConflictError
            Of each of the exchanges, another writer has changed or removed one of the files.
        """


class CompactedTable(Protocol):
    """A table, as it is when a compaction begins."""

    @property
    def name(self) -> str:
        """The name of the table, for messages."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that files have."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Columns that have one value per file: it cannot be clustered by them."""

    @property
    def by(self) -> ClusterMark | None:
        """What rows are clustered by now; None if they are not. Its group is empty."""

    @property
    def sort_fields(self) -> tuple[SortField, ...]:
        """What rows of new files are sorted by; empty if by nothing, or along a curve."""

    @property
    def target_bytes(self) -> int | None:
        """The size of data files that the table asks for; None if it asks for none."""

    @property
    def files(self) -> tuple[TableFile, ...]:
        """The data files that can be rewritten; those that are outdated come last."""

    @property
    def unneeded_deletes(self) -> int:
        """How many delete files there are that no data file needs; a commit takes them away."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Files among the others that are not taken for data files."""

    @property
    def partition_fields(self) -> tuple[PartitionField, ...] | None:
        """How the table is partitioned now; None if the values cannot be computed here."""

    @property
    def partition_values(self) -> pa.Table:
        """A row per file that is not outdated: the values of its partition, one column per field."""

    @property
    def access(self) -> FileAccess:
        """For tasks that only read."""

    def bounds(self, column: str, files: Sequence[TableFile | NewFile]) -> ColumnBounds:
        """The bounds of a column, or of a field of a struct, in files of the table or new ones."""

    def begin_clustering(self) -> None:
        """Let the table remember from now on what comes in, if it does not yet; as `kept_clustering`."""

    def kept_clustering(self) -> CountedLedger:
        """What came in and was rewritten since it is clustered as it is; `SpecError`: nothing is kept."""

    def close(self) -> None:
        """Let go of what was opened for it."""

    def finished(self) -> str | None:
        """The version that an earlier attempt of this run has committed last; None if none came so far."""

    def rewriting(self, last: bool = True) -> AbstractContextManager[Rewrite]:
        """Begin a change; what it has written is deleted if the block raises an exception.

        Parameters
        ----------
        last : bool
            No other change of this run follows.
        """

    def merge_manifests(self, *, dry_run: bool) -> MergedManifests | None:
        """Merge small lists of files, and cut large ones; None where the table has none.

        Raises
        ------
        ConflictError
            Others kept committing first.
        """
