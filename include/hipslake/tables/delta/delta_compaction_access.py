"""How tasks of a compaction read and write the data files of a Delta table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hipslake.clustering.planning import ClusterMark
from hipslake.tables.alike_row_groups import alike_in_file
from hipslake.tables.compaction_protocol import WHOLE, Share
from hipslake.tables.delta.delta_writer import DeltaWriter
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_checksums import checksum_of_file, read_with_sums, with_sum
from hipslake.tables.stored_files import StoredFile, count_deleted, read_data_file
from hipslake.tables.stored_values import RowSum

_OF_GROUP = re.compile(r"data/([^/]+)/(?:.*/)?group-(\d+)-[^/]*-by-([0-9a-f]{12})\.parquet$")
"""The name of a file that was clustered: its write, its group, and by what."""


@dataclass(frozen=True)
class DeltaAccess:
    """Reads data files of a table, and writes new ones.

    Attributes
    ----------
    writer : DeltaWriter
    stored : dict of str to StoredFile
        Files with partition values, or of which rows are deleted, by their paths.
    """

    writer: DeltaWriter
    stored: Mapping[str, StoredFile]

    def read(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> Iterator[pa.RecordBatch]:
        yield from read_data_file(self._of(path), self.writer.schema, columns, share.of)

    def read_summed(
        self, path: str, columns: Sequence[str], share: Share = WHOLE
    ) -> Iterator[tuple[pa.RecordBatch, RowSum]]:
        if not self.writer.partition_columns:
            yield from read_with_sums(self._of(path), self.writer.schema, columns, share.of)
            return
        total = self.checksum(path, columns, share)
        schema = pa.schema([self.writer.schema.field(name) for name in columns])
        yield from with_sum(self.read(path, columns, share), total, schema)

    def alike(self, path: str, columns: Sequence[str]) -> tuple[int, ...]:
        return alike_in_file(self._of(path), self.writer.schema, columns)

    def deleted(self, path: str, share: Share = WHOLE) -> int:
        return count_deleted(self._of(path), self.writer.schema, share.of)

    def checksum(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> RowSum:
        # The partition columns are not stored.
        inside = [name for name in columns if name not in self.writer.partition_columns]
        return checksum_of_file(self._of(path), self.writer.schema, inside, share.of)

    def write(self, rows: pa.Table, partition: str, name: str, mark: ClusterMark | None) -> NewFile:
        by = "" if mark is None else f"-by-{_digest(mark)}"
        return self.writer.write_in(rows, json.loads(partition), f"{name}{by}").described(
            self.writer.location
        )

    def _of(self, path: str) -> StoredFile:
        return self.stored.get(path, StoredFile(path))


def mark_of_path(path: str, by: ClusterMark | None) -> ClusterMark | None:
    """The mark of a file that was clustered as `by` says, from its path in the log; None for others."""
    match = _OF_GROUP.search(path)
    if match is None or by is None or match[3] != _digest(by):
        return None
    return ClusterMark(by.curve, by.columns, f"{match[1]}/{match[2]}")


def _digest(mark: ClusterMark) -> str:
    """Of a curve and the columns that it goes by."""
    return hashlib.sha256(json.dumps([mark.curve, *mark.columns]).encode()).hexdigest()[:12]
