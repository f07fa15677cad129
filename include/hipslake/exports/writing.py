"""Writes an export: checked first, then whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import pyarrow as pa

from hipslake.errors import NotWritableError
from hipslake.exports.csv import CsvTables
from hipslake.exports.fits import FitsTables
from hipslake.exports.model import Origin, TableWriter
from hipslake.exports.parquet import ParquetTables
from hipslake.specs.export import ExportFormat
from hipslake.storage.folder import Storage

_WRITERS: dict[ExportFormat, type[TableWriter]] = {
    ExportFormat.PARQUET: ParquetTables,
    ExportFormat.CSV: CsvTables,
    ExportFormat.FITS: FitsTables,
}


class Exported(NamedTuple):
    """What was written."""

    uri: str
    rows: int
    bytes: int


def check_export(uri: str, schema: pa.Schema, kind: ExportFormat, *, overwrite: bool) -> None:
    """Look whether an export can be written, before any row is read.

    Raises
    ------
    NotWritableError
        Something lies there already, and is not to be overwritten; or it is behind a web server.
    SchemaMismatchError
        The format has no form for a column.
    """
    check_format(schema, kind)
    folder, name = Storage.of_file(uri)
    folder.refuse_web_server(name)
    if not overwrite and folder.exists(name):
        raise NotWritableError(f"{folder.uri(name)} exists; give another URI, or overwrite it")


def check_format(schema: pa.Schema, kind: ExportFormat) -> None:
    """Raise `SchemaMismatchError` where a format has no form for a column."""
    _WRITERS[kind]().check(schema)


def write_export(
    uri: str,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    kind: ExportFormat,
    origin: Origin,
    *,
    overwrite: bool = True,
    note: Callable[[str], None] = lambda mark: None,
) -> Exported:
    """Write tables to one file, which appears when all of it is there.

    Parameters
    ----------
    uri : str
        The file: a local path, or a URI that fsspec knows.
    schema : pyarrow.Schema
        Of all tables. Field metadata says units and descriptions.
    tables : iterable of pyarrow.Table
        Taken one by one.
    kind : ExportFormat
    origin : Origin
    overwrite : bool
        Whether what stands there is replaced; else of all who write there at once, one does.
    note : callable
        As for `Storage.creating`; not called where it may overwrite.

    Raises
    ------
    SchemaMismatchError
        The format has no form for a column or for a value in it.
    NotWritableError
        Something was put there meanwhile, and is not to be overwritten.
    StorageError
        The place cannot be written.
    """
    folder, name = Storage.of_file(uri)
    with folder.open(name, "wb") if overwrite else folder.creating(name, note) as file:
        rows = _WRITERS[kind]().write(file, schema, tables, origin)
    return Exported(folder.uri(name), rows, folder.entry(name).size)
