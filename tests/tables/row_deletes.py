"""Deletes as other engines commit them: rows go without their data file being written again.

Files and manifests are written here by the published format of Iceberg, as pyiceberg writes no delete files.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

PATH_ID, POSITION_ID = 2147483546, 2147483545


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _RowDelta(_FastAppendFiles):
    files: Sequence[DataFile]

    def _manifests(self) -> list[ManifestFile]:
        table = self._transaction._table
        parts: dict[tuple[int, bool], list[DataFile]] = defaultdict(list)
        for file in self.files:
            parts[file.spec_id, file.content == DataFileContent.DATA].append(file)
        made = []
        for (spec, is_data), files in parts.items():
            output = self._io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}-delta.avro")
            kind = ManifestWriterV2 if is_data else _DeletesWriter
            with kind(table.specs()[spec], table.schema(), output, self._snapshot_id, "null") as writer:
                for file in files:
                    writer.add_entry(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self._snapshot_id,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=file,
                        )
                    )
            made.append(writer.to_manifest_file())
        return [*made, *self._existing_manifests()]

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006
        metadata, counted = self._transaction.table_metadata, SnapshotSummaryCollector(0)
        for file in self.files:
            counted.add_file(file, metadata.schema(), metadata.specs()[file.spec_id])
        before = metadata.snapshot_by_id(self._parent_snapshot_id) if self._parent_snapshot_id else None
        told = Summary(Operation.OVERWRITE, **counted.build(), **snapshot_properties)
        return update_snapshot_summaries(told, before.summary if before is not None else None)


class RowDelta:
    """Data files and delete files of one snapshot, as a stream commits them.

    Parameters
    ----------
    table : Table
    spec : int, optional
        The partition spec of its files; by default the present one.
    """

    def __init__(self, table: Table, spec: int | None = None) -> None:
        self.table = table
        self.spec = table.spec().spec_id if spec is None else spec
        self.files: list[DataFile] = []

    def data(self, rows: pa.Table, partition: Sequence[Any] = ()) -> str:
        """A data file; return its path."""
        kinds = schema_to_pyarrow(self.table.schema(), include_field_ids=True)
        stored = rows.cast(pa.schema([kinds.field(name) for name in rows.column_names]))
        return self._written(stored, DataFileContent.DATA, partition)

    def positions(
        self, at: Iterable[tuple[str, int]], partition: Sequence[Any] = (), more: pa.Table | None = None
    ) -> str:
        """A position delete file, in the order that is given, with more columns behind."""
        paths, numbers = zip(*at, strict=True)
        schema = pa.schema(
            [_field("file_path", pa.string(), PATH_ID), _field("pos", pa.int64(), POSITION_ID)]
        )
        rows = pa.table([list(paths), list(numbers)], schema=schema)
        for name in more.column_names if more is not None else ():
            rows = rows.append_column(name, more[name])  # type: ignore[index]
        return self._written(rows, DataFileContent.POSITION_DELETES, partition)

    def values(self, rows: pa.Table, partition: Sequence[Any] = (), ids: Sequence[int] | None = None) -> str:
        """An equality delete file: by the columns that it has, unless ids are given."""
        schema = self.table.schema()
        numbers = [schema.find_field(name).field_id for name in rows.column_names]
        fields = zip(rows.schema, numbers, strict=True)
        stored = rows.cast(pa.schema([_field(field.name, field.type, number) for field, number in fields]))
        by = list(numbers if ids is None else ids)
        return self._written(stored, DataFileContent.EQUALITY_DELETES, partition, equality_ids=by)

    def commit(self) -> int:
        """Commit all files; return the snapshot."""
        with self.table.transaction() as transaction:
            delta = _RowDelta(Operation.OVERWRITE, transaction, self.table.io)
            delta.files = self.files
            delta.commit()
        return delta.snapshot_id

    def _written(
        self, rows: pa.Table, content: DataFileContent, partition: Sequence[Any], **given: Any
    ) -> str:
        place = Path(self.table.location()) / "data" / f"{uuid.uuid4()}-{content.name.lower()}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, place)
        file = DataFile.from_args(
            content=content,
            file_path=str(place),
            file_format=FileFormat.PARQUET,
            partition=Record(*partition),
            record_count=rows.num_rows,
            file_size_in_bytes=place.stat().st_size,
            **_metrics(rows),
            **given,
        )
        file.spec_id = self.spec
        self.files.append(file)
        return str(place)


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def _metrics(rows: pa.Table) -> dict[str, Any]:
    """Nulls of all columns that have an id, and bounds of whole numbers and of paths."""
    nulls, low, high = {}, {}, {}
    for field in rows.schema:
        number = int((field.metadata or {}).get(b"PARQUET:field_id", b"-1"))
        if number < 0:
            continue
        nulls[number] = rows[field.name].null_count
        if field.type == pa.int64() and pc.count(rows[field.name]).as_py():
            extremes = pc.min_max(rows[field.name]).as_py()
            low[number] = to_bytes(LongType(), extremes["min"])
            high[number] = to_bytes(LongType(), extremes["max"])
        if number == PATH_ID:
            low[number], high[number] = (each(rows[field.name].to_pylist()).encode() for each in (min, max))
    return {"null_value_counts": nulls, "lower_bounds": low, "upper_bounds": high}


def delete_rows(table: Table, path: str, positions: list[int]) -> None:
    """Commit a file that takes rows of a data file of an unpartitioned table away."""
    delta = RowDelta(table)
    delta.positions([(path, position) for position in positions])
    delta.commit()


def delete_values(table: Table, column: str, values: pa.Array) -> None:
    """Commit a file that takes all rows with certain values of a column away."""
    delta = RowDelta(table)
    delta.values(pa.table({column: values}))
    delta.commit()
