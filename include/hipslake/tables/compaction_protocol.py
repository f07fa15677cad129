"""What a compaction asks of a table, or of a plain folder of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import pyarrow as pa

from hipslake.clustering.planning import ClusterMark, TableFile
from hipslake.storage.folder import Storage
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


class Rewrite(WriteUnderWay, Protocol):
    """A change of a table that is under way."""

    @property
    def access(self) -> FileAccess:
        """For the tasks."""

    def commit(self, added: Sequence[NewFile], removed: Sequence[TableFile]) -> str:
        """Replace files by others, all or none; return the version of the table that this makes.

        Raises
        ------
        ConflictError
            Another writer has changed or removed one of the files.
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
    def files(self) -> tuple[TableFile, ...]:
        """The data files that can be rewritten."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Files among the others that are not taken for data files."""

    @property
    def older_files(self) -> int:
        """How many other files there are, of partitions that the table no longer makes."""

    @property
    def partition_values(self) -> pa.Table:
        """A row per file: the values of its partition, one column per field."""

    @property
    def access(self) -> FileAccess:
        """For tasks that only read."""

    def close(self) -> None:
        """Let go of what was opened for it."""

    def finished(self) -> str | None:
        """The version that an earlier attempt of this run has committed; None if none did."""

    def rewriting(self) -> AbstractContextManager[Rewrite]:
        """Begin a change; what it has written is deleted if the block raises an exception."""
