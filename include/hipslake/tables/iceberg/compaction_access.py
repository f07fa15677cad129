"""How tasks of a compaction read and write the data files of an Iceberg table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from hipslake.clustering.planning import SORTED, ClusterMark
from hipslake.specs.partition_fields import SortField
from hipslake.tables.alike_row_groups import alike_in_file
from hipslake.tables.compaction_protocol import WHOLE, Share
from hipslake.tables.iceberg.file_writer import FileWriter
from hipslake.tables.iceberg.table_partitioning import sort_order
from hipslake.tables.new_files import NewFile
from hipslake.tables.stored_checksums import checksum_of_file, read_with_sums
from hipslake.tables.stored_files import StoredFile, count_deleted, read_data_file
from hipslake.tables.stored_values import RowSum

_OF_GROUP = re.compile(r"/([^/]+)/group-(\d+)-[^/]*-by-([0-9a-f]{12})\.parquet$")
"""The name of a file that was clustered: its write, its group, and by what.

It says so in its name, as nothing else goes with the file alone: properties of the table would grow with each
compaction, and outlive the files.
"""


@dataclass(frozen=True)
class IcebergAccess:
    """Reads data files of a table, and writes new ones.

    Attributes
    ----------
    writer : FileWriter
    partitions : dict of str to tuple
        The values of each partition, by its name.
    partial : dict of str to StoredFile
        Files that may lack a column, or of which rows are deleted, by their paths.
    """

    writer: FileWriter
    partitions: dict[str, tuple[Any, ...]]
    partial: dict[str, StoredFile]

    def read(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> Iterator[pa.RecordBatch]:
        file = self.partial.get(path, StoredFile(path))
        yield from read_data_file(file, self.writer.arrow_schema, columns, share.of)

    def read_summed(
        self, path: str, columns: Sequence[str], share: Share = WHOLE
    ) -> Iterator[tuple[pa.RecordBatch, RowSum]]:
        file = self.partial.get(path, StoredFile(path))
        yield from read_with_sums(file, self.writer.arrow_schema, columns, share.of)

    def alike(self, path: str, columns: Sequence[str]) -> tuple[int, ...]:
        return alike_in_file(self.partial.get(path, StoredFile(path)), self.writer.arrow_schema, columns)

    def deleted(self, path: str, share: Share = WHOLE) -> int:
        file = self.partial.get(path, StoredFile(path))
        return count_deleted(file, self.writer.arrow_schema, share.of)

    def checksum(self, path: str, columns: Sequence[str], share: Share = WHOLE) -> RowSum:
        file = self.partial.get(path, StoredFile(path))
        return checksum_of_file(file, self.writer.arrow_schema, columns, share.of)

    def write(self, rows: pa.Table, partition: str, name: str, mark: ClusterMark | None) -> NewFile:
        by = "" if mark is None else suffix_of(digest_of(mark, self.writer.schema))
        return self.writer.write_file(rows, self.partitions[partition], f"{name}{by}")


def mark_of_name(path: str, by: ClusterMark | None, schema: Schema) -> ClusterMark | None:
    """The mark of a file that was clustered as `by` says, from its name; None for others."""
    match = _OF_GROUP.search(path)
    if match is None or by is None or match[3] != digest_of(by, schema):
        return None
    return ClusterMark(by.curve, by.columns, f"{match[1]}/{match[2]}")


def suffix_of(digest: str) -> str:
    """What the name of a file ends with that is clustered by what a digest stands for."""
    return f"-by-{digest}"


def is_clustered_by(path: str, digest: str) -> bool:
    """Whether a sink or a compaction has written a file clustered by what a digest stands for."""
    return path.endswith(f"{suffix_of(digest)}.parquet")


def digest_of(mark: ClusterMark, schema: Schema) -> str:
    """Of a curve and the columns that it goes by; these by their ids, since others may rename them."""
    told: list[str | int]
    if mark.curve == SORTED:
        fields = [SortField.parse(text) for text in mark.columns]
        told = [mark.curve, *(str(field) for field in sort_order(tuple(fields), schema).fields)]
    else:
        told = [mark.curve, *(schema.find_field(name).field_id for name in mark.columns)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]
