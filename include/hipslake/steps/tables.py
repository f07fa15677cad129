"""Tables in the run folder: Parquet, read and written whole; and those that tasks give as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hipslake.errors import CatalogFormatError
from hipslake.storage.column_chunks import FEW_ROWS
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import damage_as_error


def write_table(storage: Storage, path: str, table: pa.Table) -> None:
    """Store a table, whole or not at all."""
    write_tables(storage, path, [table])


def write_tables(storage: Storage, path: str, tables: Iterable[pa.Table]) -> None:
    """Store the rows of tables of one schema, of which there is at least one, as one table."""
    remaining = iter(tables)
    first = next(remaining)
    texts = [field.name for field in first.schema if pa.types.is_string(field.type)]
    # Most numbers ascend or are small: as differences, millions are written and read in half the time.
    numbers = [field.name for field in first.schema if pa.types.is_integer(field.type)]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        first.schema,
        compression="zstd",
        use_dictionary=texts or False,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    ) as writer:
        for table in chain([first], remaining):
            writer.write_table(table)
    storage.write(path, sink.getvalue(), durable=False)


def read_table(
    storage: Storage, path: str, columns: list[str] | None = None, filters: pc.Expression | None = None
) -> pa.Table:
    """The table stored at a path: all of it, or some columns, and the rows that a filter lets through.

    Raises
    ------
    CatalogFormatError
        It is damaged, or lacks one of the columns.
    """
    data = storage.read(path)
    with damage_as_error(storage.uri(path)):
        if filters is None:  # without the dataset of one file that pyarrow would make
            file = pq.ParquetFile(pa.BufferReader(data))
            _check_columns(storage.uri(path), file.schema_arrow, columns or [])
            table = file.read(columns, use_threads=file.metadata.num_rows >= FEW_ROWS)
            return table if columns is None else table.select(columns)
        return pq.read_table(pa.BufferReader(data), columns=columns, filters=filters)


def _check_columns(where: str, schema: pa.Schema, columns: list[str]) -> None:
    for name in columns:
        if name not in schema.names:
            raise CatalogFormatError(f"{where}: has no column {name!r}; restore it, or make it anew")


def to_ipc(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream: engines do not know all types, but they carry bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def from_ipc(data: bytes) -> pa.Table:
    """The table that `to_ipc` gave as bytes."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()
