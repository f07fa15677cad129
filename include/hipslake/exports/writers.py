"""Exports to Parquet, CSV, FITS or VOTable files: checked first, then written whole or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from hipslake.errors import NotWritableError, SchemaMismatchError
from hipslake.exports.fits import FitsTables
from hipslake.exports.hexadecimal import hexadecimal, is_bytes
from hipslake.exports.parquet_votable import FooterVotable
from hipslake.exports.provenance import Provenance, TableWriter
from hipslake.exports.votable import VotableTables
from hipslake.specs.export_formats import ExportFormat
from hipslake.storage.folder import Storage

ROW_GROUP_ROWS = 100_000
_ROW_GROUP_BYTES = 128 << 20


class ParquetTables:
    """Writes Parquet, zstd, with types, units and descriptions as they are in the catalog.

    The origin is in the file's key-value metadata, as `hipslake.<name>`; beside it stands a VOTable of the
    columns, where these are described.
    """

    def check(self, schema: pa.Schema) -> None:
        """Every column of a catalog came from Parquet, and fits."""

    def write(self, file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], origin: Provenance) -> int:
        entries = {f"hipslake.{name}": text for name, text in origin.fields().items()}
        votable = FooterVotable(schema)
        rows = 0
        with pq.ParquetWriter(file, schema.with_metadata(entries), compression="zstd") as writer:
            for table in gathered(tables, _ROW_GROUP_BYTES, ROW_GROUP_ROWS):
                writer.write_table(table.replace_schema_metadata(entries), row_group_size=ROW_GROUP_ROWS)
                votable.add(table)
                rows += table.num_rows
            writer.add_key_value_metadata(votable.entries())
        return rows


def gathered(
    tables: Iterable[pa.Table], enough_bytes: int, enough_rows: float = math.inf
) -> Iterator[pa.Table]:
    """Small tables put together, so that each is large enough for a row group: many make a long footer."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= enough_rows or size >= enough_bytes:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(waiting)


class CsvTables:
    """Writes CSV: a header, UTF-8, texts in quotes; null is nothing at all, the empty text is `""`.

    Bytes are written in hexadecimal, times that have a zone in UTC. It has no place for units, descriptions
    and the origin.
    """

    def check(self, schema: pa.Schema) -> None:
        formless = [
            field.name
            for field in schema
            if pa.types.is_nested(field.type) or isinstance(field.type, pa.BaseExtensionType)
        ]
        if formless:
            raise SchemaMismatchError(
                f"export: CSV has no form for {_listed(schema, formless)}; leave it out, or take parquet"
            )

    def write(self, file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], origin: Provenance) -> int:
        rows = 0
        with pacsv.CSVWriter(file, _as_written(schema.empty_table()).schema) as writer:
            for table in tables:
                writer.write_table(_as_written(table))
                rows += table.num_rows
        return rows


def _as_written(table: pa.Table) -> pa.Table:
    """A table whose bytes are hexadecimal texts, and whose times that have a zone are in UTC."""
    for at, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if is_bytes(kind):
            chunks = table.column(at).cast(kind).chunks
            texts = pa.chunked_array([hexadecimal(chunk) for chunk in chunks], pa.large_string())
            table = table.set_column(at, field.name, texts)
        elif pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
            table = table.set_column(at, field.name, table.column(at).cast(pa.timestamp(kind.unit, "UTC")))
    return table


def _listed(schema: pa.Schema, names: list[str]) -> str:
    return ", ".join(f"{name!r} ({schema.field(name).type})" for name in names)


_WRITERS: dict[ExportFormat, type[TableWriter]] = {
    ExportFormat.PARQUET: ParquetTables,
    ExportFormat.CSV: CsvTables,
    ExportFormat.FITS: FitsTables,
    ExportFormat.VOTABLE: VotableTables,
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


def write_rows(
    file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], kind: ExportFormat, origin: Provenance
) -> int:
    """Write tables into an open file; returns how many rows. Parameters and errors as of `write_export`."""
    check_format(schema, kind)
    return _WRITERS[kind]().write(file, schema, tables, origin)


def write_export(
    uri: str,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    kind: ExportFormat,
    origin: Provenance,
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
    origin : Provenance
    overwrite : bool
        Whether an existing file is replaced; else one of several concurrent writers succeeds.
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
