"""Writes data files of Delta tables: Parquet without the partition columns, whose values the log has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.specs.partition_fields import SortField
from hipslake.storage.dictionaries import repeating_columns
from hipslake.storage.folder import Storage
from hipslake.storage.write_out import native_output
from hipslake.tables.delta.delta_files import DATA, WrittenDeltaFile, folder_of, partition_texts
from hipslake.tables.delta.delta_log import LogState
from hipslake.tables.delta.delta_statistics import FileStatistics, indexed_columns
from hipslake.tables.growing_parquet import GrowingParquet
from hipslake.tables.new_files import NewFile
from hipslake.tables.row_order import in_sort_order

_ROW_GROUP_ROWS = 1 << 18


@dataclass(frozen=True)
class DeltaWriter:
    """Writes data files of a table. Small and plain, so that it travels with tasks.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the table.
    partition_columns : tuple of str
    location : str
        Of the table.
    indexed : tuple of str
        Columns that statistics are kept of.
    sort : tuple of SortField
        What rows of a file are sorted by; empty: they stay as they come.
    write_id : str
        Names the folder that files go to.
    """

    schema: pa.Schema
    partition_columns: tuple[str, ...]
    location: str
    indexed: tuple[str, ...]
    sort: tuple[SortField, ...]
    write_id: str

    @classmethod
    def of(
        cls, state: LogState, sort: tuple[SortField, ...], write_id: str, clustered: tuple[str, ...] = ()
    ) -> DeltaWriter:
        """Return the writer of a version of a table, whose rows are sorted, or clustered by some columns."""
        partitioned = state.partition_columns
        inside = pa.schema([field for field in state.schema if field.name not in partitioned])
        # What rows are in order by is what queries ask for, wherever the column stands.
        ordered = (*(each.field.column for each in sort), *clustered)
        found = [*indexed_columns(inside, state.configuration), *ordered]
        indexed = tuple(name for name in dict.fromkeys(found) if name in inside.names)
        return cls(state.schema, partitioned, state.location, indexed, sort, write_id)

    @property
    def arrow_schema(self) -> pa.Schema:
        """What rows must have: all columns of the table."""
        return self.schema

    @cached_property
    def storage(self) -> Storage:
        """The storage at the folder that files go to."""
        return Storage.at(self.location).sub(f"{DATA}/{self.write_id}")

    def write_file(self, rows: pa.Table, partition: tuple[Any, ...], name: str) -> NewFile:
        """Write a file of rows of one partition. Written again under its name, it is replaced.

        Raises
        ------
        InputError, PlanError
            As `partition_texts`.
        """
        texts = partition_texts(self.schema, self.partition_columns, partition)
        return self.write_in(rows, texts, name).described(self.location)

    def write_in(self, rows: pa.Table, texts: Mapping[str, str | None], name: str) -> WrittenDeltaFile:
        """Write a file of rows of a partition, whose values are as the log has them."""
        with self._opened(texts, name) as file:
            file.write(in_sort_order(rows.cast(self.schema), self.sort))
        return file.written

    @property
    def takes_rows_as_they_come(self) -> bool:
        """Whether `opened` serves: rows of a file are not sorted."""
        return not self.sort

    def opened(self, partition: tuple[Any, ...], name: str) -> AbstractContextManager[OpenDeltaFile]:
        """Open a file for rows of one partition that come by and by, and are written as they come.

        It has its place once the block has ended, and has none if that raises.
        """
        return self._opened(partition_texts(self.schema, self.partition_columns, partition), name)

    @contextmanager
    def _opened(self, texts: Mapping[str, str | None], name: str) -> Iterator[OpenDeltaFile]:
        folder, _, last = name.rpartition("/")
        path = Storage.join(folder, folder_of(texts), f"{last}.parquet")
        with (
            self.storage.open(path, "wb") as file,
            native_output(file) as output,
            closing(OpenDeltaFile(self, output)) as opened,
        ):
            yield opened
            opened.end()
        opened.written = WrittenDeltaFile(
            path=quote(f"{DATA}/{self.write_id}/{path}", safe="/=:"),
            partition=dict(texts),
            rows=opened.footer.num_rows,
            bytes=opened.bytes,
            stats=opened.statistics.text(),
        )

    def unsorted(self, sort_order: int | None) -> DeltaWriter:
        """The same, for rows that are in order already; Delta has no numbers of sort orders."""
        return replace(self, sort=())

    def row_bytes(self, rows: pa.Table) -> float:
        """The size of a row as it will be written, in bytes, found by encoding some."""
        file = OpenDeltaFile(self, pa.BufferOutputStream())
        file.write(in_sort_order(rows.cast(self.schema), self.sort))
        file.end()
        groups = [file.footer.row_group(at) for at in range(file.footer.num_row_groups)]
        size = sum(
            group.column(at).total_compressed_size for group in groups for at in range(group.num_columns)
        )
        return size / max(rows.num_rows, 1)


class OpenDeltaFile(GrowingParquet):
    """A data file that rows are written to, each time as row groups of their own.

    Attributes
    ----------
    statistics : FileStatistics
    written : WrittenDeltaFile
        What it has become, once `DeltaWriter.opened` has ended.
    """

    written: WrittenDeltaFile

    def __init__(self, writer: DeltaWriter, file: BinaryIO | pa.NativeFile) -> None:
        super().__init__(file, _parquet_writer)
        self.statistics = FileStatistics(writer.indexed)
        self._of = writer

    def write(self, rows: pa.Table) -> None:
        """Write rows with all columns of the table, in their order."""
        rows = rows.cast(self._of.schema).drop_columns(list(self._of.partition_columns))
        self.add(rows, _ROW_GROUP_ROWS)
        self.statistics.add(rows)

    def new_file(self) -> NewFile:
        """What it has become, for the commit."""
        return self.written.described(self._of.location)


def _parquet_writer(rows: pa.Table, file: BinaryIO | pa.NativeFile) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        file,
        rows.schema,
        compression="zstd",
        store_decimal_as_integer=True,
        write_page_index=True,
        use_dictionary=repeating_columns(rows),
    )
