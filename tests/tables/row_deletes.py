"""Position deletes as other engines commit them: rows go without their data file being written again."""

from __future__ import annotations

import uuid
from pathlib import Path

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
    place = Path(table.location()) / "data" / f"{uuid.uuid4()}-deletes.parquet"
    pq.write_table(pa.table({"file_path": [path] * len(positions), "pos": positions}), place)
    with table.transaction() as transaction:
        delta = _RowDelta(Operation.OVERWRITE, transaction, table.io)
        delta.deletes = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=str(place),
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=len(positions),
            file_size_in_bytes=place.stat().st_size,
        )
        delta.commit()
