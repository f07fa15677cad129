"""The rows of an Iceberg table, offered to a cube: a part is a data file of one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from hipslake.errors import VersionNotFoundError
from hipslake.specs.table_spec import IcebergSpec
from hipslake.tables.catalogs import open_catalog, open_table
from hipslake.tables.data_files import check_no_delete_files, live_files
from hipslake.tables.old_rows import StoredFile, read_data_file
from hipslake.tables.schemas import arrow_schema, with_name_mapping


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
        with closing(open_catalog(spec, warehouse)) as catalog:
            table = open_table(catalog, name)
            if snapshot_id is None:
                return cls((), with_name_mapping(arrow_schema(table.schema()), table.properties))
            snapshot = snapshot_in(table, snapshot_id)
            check_no_delete_files(table, "a cube", snapshot)
            number = snapshot.schema_id
            schema = table.schema() if number is None else table.schemas()[number]
            files = tuple(StoredFile.of(file, table) for file in live_files(table, snapshot))
            return cls(files, with_name_mapping(arrow_schema(schema), table.properties))

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


def snapshot_in(table: Table, snapshot_id: int) -> Snapshot:
    """A snapshot of a table; `VersionNotFoundError` if it has none of that id."""
    found = table.snapshot_by_id(snapshot_id)
    if found is None:
        raise VersionNotFoundError(
            f"table {'.'.join(table.name())} has no snapshot {snapshot_id}; it may have expired, so take a "
            "newer one"
        )
    return found
