"""The rows of an Iceberg table, offered to a cube: a part is a data file of one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from hipslake.specs.table_spec import IcebergSpec
from hipslake.tables.opening import open_table
from hipslake.tables.stored_files import StoredFile, read_data_file


@dataclass(frozen=True)
class IcebergRows:
    """One snapshot of a table. It needs no Iceberg catalog to be read, so tasks need no keys of one.

    Parameters
    ----------
    files : tuple of StoredFile
        Of the data files.
    stored : pyarrow.Schema
        Of the snapshot, with field ids.
    """

    files: tuple[StoredFile, ...]
    stored: pa.Schema

    @classmethod
    def of(cls, spec: IcebergSpec, warehouse: str, name: str, snapshot_id: int | None) -> IcebergRows:
        """A snapshot of a table; without any, an empty table.

        Raises
        ------
        SpecError
            There is no such table.
        VersionNotFoundError
            The snapshot has expired.
        PlanError
            The table has delete files.
        """
        with closing(open_table(spec, warehouse, name)) as opened:
            table = opened.existing()
            if snapshot_id is None:
                return cls((), table.schema)
            table = table.at(snapshot_id)
            table.check_no_delete_files("a cube")
            return cls(tuple(file.stored for file in table.files), table.schema)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([field.remove_metadata() for field in self.stored])

    @property
    def parts(self) -> int:
        return len(self.files)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        kept = pa.schema([self.schema.field(name) for name in columns])
        for batch in read_data_file(self.files[part], self.stored, list(columns)):
            yield pa.Table.from_batches([batch]).cast(kept)
