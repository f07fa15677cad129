"""How tasks of a compaction read files of a folder and write those of the new one, with their marks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.clustering.planning import ClusterMark
from hipslake.specs.partition_fields import SortField
from hipslake.storage.calendars import check_calendar
from hipslake.storage.dictionaries import repeating_columns
from hipslake.storage.folder import Storage
from hipslake.storage.int96 import Unit, check_int96, int96_columns
from hipslake.storage.plain_json import plain_json
from hipslake.storage.write_out import native_output
from hipslake.tables.alike_row_groups import alike_row_groups
from hipslake.tables.compaction_protocol import WHOLE, Share
from hipslake.tables.new_files import NewFile
from hipslake.tables.row_order import in_sort_order
from hipslake.tables.stored_checksums import is_stored_so, stored_rows, with_sum
from hipslake.tables.stored_files import batch_rows, opened_parquet
from hipslake.tables.stored_values import RowSum, StoredRows

MARK = b"hipslake.clustering"
"""In the key-value metadata of a file: what it was clustered by."""

_ROW_GROUP_ROWS = 1 << 18


@dataclass(frozen=True)
class FolderAccess:
    """Reads files of the old folder, and writes files of the new one.

    Attributes
    ----------
    source, target : str
        URIs of the folders.
    schema : pyarrow.Schema
        That all rows get: files may differ in which columns may be null, in their order, and in how they
        store texts.
    int96 : {"us", "ns"}
        The unit that holds the times of files whose type says none.
    sort : tuple of SortField
        What rows of new files are sorted by.
    """

    source: str
    target: str
    schema: pa.Schema
    int96: Unit = "us"
    sort: tuple[SortField, ...] = ()

    def read(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)
        with opened_parquet(path, coerce_int96_timestamp_unit=self.int96) as (file, parquet):
            groups = share.of(parquet.num_row_groups)
            check_int96(file, int96_columns(parquet.metadata), groups, self.int96, path)
            check_calendar(file, parquet.metadata, columns, groups, path)
            size = batch_rows(parquet.metadata)
            for batch in parquet.iter_batches(size, groups, list(columns), use_threads=False):
                yield batch.select(list(columns)).cast(wanted)

    def read_summed(
        self, path: str, columns: Sequence[str], share: Share = WHOLE
    ) -> Iterator[tuple[pa.RecordBatch, RowSum]]:
        wanted = pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)
        with opened_parquet(path) as (file, parquet):
            if is_stored_so(parquet, columns, wanted.types):
                groups = share.of(parquet.num_row_groups)
                check_calendar(file, parquet.metadata, columns, groups, path)
                yield from stored_rows(file, parquet, columns, groups, wanted)
                return
        yield from with_sum(self.read(path, columns, share), self.checksum(path, columns, share), wanted)

    def alike(self, path: str, columns: Sequence[str]) -> tuple[int, ...]:
        with opened_parquet(path) as (_, parquet):
            return alike_row_groups(parquet.metadata, columns)

    def deleted(self, path: str, share: Share = WHOLE) -> int:
        return 0

    def checksum(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> RowSum:
        with opened_parquet(path) as (file, parquet):
            groups = share.of(parquet.num_row_groups)
            return StoredRows(file).summed(columns, groups, batch_rows(parquet.metadata))

    def write(self, rows: pa.Table, partition: str, name: str, mark: ClusterMark | None) -> NewFile:
        storage = Storage.at(self.target)
        path = Storage.join(partition, f"{name}.parquet")
        metadata = {**(rows.schema.metadata or {}), **({MARK: mark_text(mark).encode()} if mark else {})}
        rows = in_sort_order(rows, self.sort).replace_schema_metadata(metadata or None)
        with (
            storage.open(path, "wb") as file,
            native_output(file) as output,
            pq.ParquetWriter(
                output,
                rows.schema,
                compression="zstd",
                use_dictionary=repeating_columns(rows),
                write_page_index=True,
            ) as writer,
        ):
            writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
        return NewFile(path=storage.uri(path), rows=rows.num_rows, bytes=storage.entry(path).size)


def mark_text(mark: ClusterMark) -> str:
    """A mark as files bear it."""
    return json.dumps({"curve": mark.curve, "columns": list(mark.columns), "group": mark.group})


def mark_from(text: str) -> ClusterMark | None:
    """The inverse of `mark_text`; None for what is none."""
    try:
        told = plain_json(text)
        return ClusterMark(str(told["curve"]), tuple(told["columns"]), str(told["group"]))
    except (ValueError, TypeError, KeyError):
        return None
