"""Deletes as other engines commit them: rows go without their data file being written again."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import OutputFile
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
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _RowDelta(_FastAppendFiles):
    deletes: DataFile

    def _existing_manifests(self) -> list[ManifestFile]:
        table = self._transaction._table
        output: OutputFile = self._io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}-deletes.avro")
        with _DeletesWriter(table.spec(), table.schema(), output, self._snapshot_id, "null") as writer:
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self._snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=self.deletes,
                )
            )
        return [*super()._existing_manifests(), writer.to_manifest_file()]


def delete_rows(table: Table, path: str, positions: list[int]) -> None:
    """Commit a file that takes rows of a data file of an unpartitioned table away."""
    rows = pa.table({"file_path": [path] * len(positions), "pos": positions})
    _commit(table, rows, DataFileContent.POSITION_DELETES)


def delete_values(table: Table, column: str, values: pa.Array) -> None:
    """Commit a file that takes all rows with certain values of a column away."""
    number = table.schema().find_field(column).field_id
    field = pa.field(column, values.type, metadata={"PARQUET:field_id": str(number)})
    rows = pa.table([values], schema=pa.schema([field]))
    _commit(table, rows, DataFileContent.EQUALITY_DELETES, equality_ids=[number])


def _commit(table: Table, rows: pa.Table, content: DataFileContent, **given: Any) -> None:
    place = Path(table.location()) / "data" / f"{uuid.uuid4()}-deletes.parquet"
    pq.write_table(rows, place)
    with table.transaction() as transaction:
        delta = _RowDelta(Operation.OVERWRITE, transaction, table.io)
        delta.deletes = DataFile.from_args(
            content=content,
            file_path=str(place),
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=rows.num_rows,
            file_size_in_bytes=place.stat().st_size,
            **given,
        )
        delta.commit()
