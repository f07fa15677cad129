"""`Table`: a table that is no catalog of the sky, opened for reading: Iceberg, Delta, or a Parquet folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from hipslake.api.catalog_views import columns_html
from hipslake.api.html import details_html, facts_html, table_html
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import SchemaMismatchError, SpecError, VersionNotFoundError
from hipslake.specs.environment import expand
from hipslake.specs.table_place import DeltaSpec, IcebergSpec, TablePlace
from hipslake.specs.table_writing import WriteMode
from hipslake.steps.delete.request import MAX_FRACTION
from hipslake.steps.table_delete.request import DELETED, TableDeletion
from hipslake.steps.table_delete.table_deleting import delete_table_rows
from hipslake.steps.table_delete.table_rows_choice import TableRowsChoice
from hipslake.storage.folder import Storage
from hipslake.tables.opening import is_delta_folder, open_delta, open_table
from hipslake.tables.protocol import NamedTable
from hipslake.tables.reading_protocol import ReadableTable, TableTotals, TableVersion

_MOST_VERSIONS = 20  # listed in a notebook


class Table:
    """One version of a table, as it was when it was opened. Made by `Table.open`."""

    def __init__(
        self, name: str, rows: ReadableTable, opened: Callable[[], NamedTable] | None = None
    ) -> None:
        self.name = name
        self._rows = rows
        self._opened = opened  # None: of a folder

    @classmethod
    def open(
        cls,
        table: str | Path,
        version: int | str | None = None,
        *,
        warehouse: str | Path | None = None,
        iceberg: IcebergSpec | dict[str, Any] | None = None,
        delta: DeltaSpec | dict[str, Any] | None = None,
    ) -> Table:
        """Open a table.

        Parameters
        ----------
        table : str or Path
            Namespace and name in an Iceberg catalog (`survey.observations`), or the path or URI of a Delta
            table or a folder of Parquet files, which has a slash in it.
        version : int or str, optional
            Of an Iceberg table, the id of a snapshot, or the name of a tag or a branch; of a Delta table, its
            version. The newest if not given.
        warehouse : str or Path, optional
            Where new tables of the Iceberg catalog lie; `HIPSLAKE_WAREHOUSE` if not given.
        iceberg : IcebergSpec or dict, optional
            The Iceberg catalog, as under `iceberg` in a spec; the one of SQLite in `HIPSLAKE_STATE` if not
            given.
        delta : DeltaSpec or dict, optional
            Where Delta tables lie, as under `delta` in a spec: then `table` is the namespace and name of one.

        Raises
        ------
        SpecError
            There is no such table; the message lists those of its namespace. Or the address makes no sense.
        InputError
            The folder holds no Parquet file, or is of another table format.
        VersionNotFoundError
            The table has no such snapshot, tag or branch, or it has expired.
        StorageError
            The catalog or the store cannot be reached.
        """
        if isinstance(table, Path) or "/" in table:
            if is_delta_folder(str(table)):
                return cls._of(partial(open_delta, str(table)), str(table), version)
            if version is not None:
                raise VersionNotFoundError(
                    f"{table}: a folder of Parquet files has no versions: leave it out"
                )
            from hipslake.tables.parquet_folder.folder_rows import FolderRows

            return cls(str(table), FolderRows(Storage.at(str(table))))
        if "." not in table:
            raise SpecError(
                f"{table!r} is neither namespace.table of an Iceberg catalog nor a folder, which has a slash"
            )
        spec: TablePlace
        if delta is not None:
            spec = delta if isinstance(delta, DeltaSpec) else DeltaSpec.model_validate(delta)
        else:
            spec = iceberg if isinstance(iceberg, IcebergSpec) else IcebergSpec.model_validate(iceberg or {})
        place = expand("${HIPSLAKE_WAREHOUSE}") if warehouse is None else str(warehouse)
        return cls._of(partial(open_table, spec, place, table), table, version)

    @classmethod
    def _of(cls, opened: Callable[[], NamedTable], name: str, version: int | str | None) -> Table:
        state = opened().existing()
        return cls(name, state if version is None else state.at(version), opened)

    @property
    def uri(self) -> str:
        """Where it lies."""
        return self._rows.location

    @property
    def version(self) -> int | None:
        """The id of the snapshot, or the version; None of a folder, and of a table without a commit."""
        return self._rows.version

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._rows.schema

    @property
    def rows(self) -> int | None:
        """How many there are; None where the table's metadata does not say."""
        return self._rows.totals.rows

    @property
    def totals(self) -> TableTotals:
        """Rows, bytes, files, and when the version was made, as far as they are known."""
        return self._rows.totals

    def versions(self) -> list[TableVersion]:
        """The versions that can be opened, from old to new, with their times and rows; none of a folder."""
        return self._rows.versions()

    @property
    def deletion(self) -> TableDeletion | None:
        """What the delete took out that made this version; None: no delete of this library did."""
        told = self._rows.told.get(DELETED)
        return None if told is None else TableDeletion.model_validate_json(told)

    def delete(
        self,
        keys: Any = None,
        filters: Any = None,
        *,
        key: str | Sequence[str] = (),
        write: WriteMode | str | None = None,
        max_fraction: float = MAX_FRACTION,
        force: bool = False,
    ) -> Table:
        """Delete rows of the newest version of the table, by a commit of its own.

        Exactly one of `keys` and `filters` chooses them. Files that others add meanwhile are looked through
        too.

        Parameters
        ----------
        keys : object, optional
            Values of the key column: a sequence, or an array of numpy, pandas or Arrow; of a key of several
            columns, a table, a data frame, a mapping of columns, or for each row a tuple or a mapping. Keys
            that no row has are passed over and counted.
        filters : str or list or pyarrow.compute.Expression, optional
            As of `Catalog.read`.
        key : str or sequence of str, optional
            The columns that keys are of; the identifier fields of the table if not given.
        write : {"copy-on-write", "merge-on-read"}, optional
            Whether what stays of files is written anew, or files of deletes say which rows are gone; by
            default what the table's property `write.delete.mode` says, copy-on-write if it does not.
        max_fraction : float
            The largest part of the rows that may go, from 0 to 1.
        force : bool
            Let any number go.

        Returns
        -------
        Table
            At its newest version; `deletion` says what went. If there was no row to delete, that is the
            version that was there.

        Raises
        ------
        SpecError
            It is a folder; or rows are not chosen in exactly one way, or more than may go.
        SchemaMismatchError, FilterError, InputError
            There is no such column, or keys or the filter do not fit.
        ConflictError
            Others kept changing the table.
        """
        if self._opened is None:
            raise SpecError(
                f"{self.name}: a folder of Parquet files takes no deletes; rows go from tables only"
            )
        try:
            mode = None if write is None else WriteMode(write)
        except ValueError:
            raise SpecError(f"write: {write!r} is neither of {', '.join(WriteMode)}") from None
        choice = TableRowsChoice(keys, filters, (key,) if isinstance(key, str) else tuple(key))
        with closing(self._opened()) as table:
            outcome = delete_table_rows(
                table,
                self.name,
                choice,
                ThisProcess(),
                write=mode,
                max_fraction=max_fraction,
                force=force,
            )
            state = table.existing()
            version = outcome.snapshot_id
            return Table(self.name, state if version is None else state.at(version), self._opened)

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Read like `read`, but file by file: for tables that do not fit into memory."""
        wanted = self.schema.names if columns is None else list(columns)
        for name in wanted:
            if name not in self.schema.names:
                raise SchemaMismatchError(
                    f"table {self.name} has no column {name!r}; its columns are "
                    f"{', '.join(self.schema.names)}"
                )
        return self._rows.tables(wanted)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all rows, in the order of files.

        Parameters
        ----------
        columns : sequence of str, optional
            All if not given.

        Raises
        ------
        SchemaMismatchError
            There is no such column.
        PlanError
            Rows are taken out by delete files of a kind that is not read.
        StorageError
            A file is gone, or the store cannot be reached.
        """
        found = list(self.tables(columns))
        names = self.schema.names if columns is None else list(columns)
        empty = pa.schema([self.schema.field(name) for name in names]).empty_table()
        return pa.concat_tables([empty, *found]) if found else empty

    def __repr__(self) -> str:
        version = "" if self.version is None else f", version={self.version}"
        return f"Table({self.name!r}{version}, rows={self.rows})"

    def _repr_html_(self) -> str:
        totals = self.totals
        facts = [("rows", totals.rows), ("bytes", totals.bytes), ("files", totals.files), ("at", self.uri)]
        told = facts_html(self.name, [(name, value) for name, value in facts if value is not None])
        versions = self.versions()
        rows = [(each.version, f"{each.created:%Y-%m-%d %H:%M:%S} UTC", each.rows) for each in versions]
        listed = table_html(("version", "created", "rows"), rows[-_MOST_VERSIONS:])
        shown = details_html(f"{len(versions)} version{'s' if len(versions) != 1 else ''}", listed)
        return told + columns_html(self.schema) + (shown if versions else "")
