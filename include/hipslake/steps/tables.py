"""Tables in the run folder: Parquet, read and written whole."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.storage import Storage


def write_table(storage: Storage, path: str, table: pa.Table) -> None:
    """Store a table, whole or not at all."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=_texts(table.schema))
    storage.write(path, sink.getvalue(), durable=False)


def read_table(storage: Storage, path: str) -> pa.Table:
    """The table stored at a path."""
    return pq.read_table(pa.BufferReader(storage.read(path)))


def _texts(schema: pa.Schema) -> list[str] | bool:
    """The columns that are worth a dictionary; looking for one among millions of numbers takes long."""
    return [field.name for field in schema if pa.types.is_string(field.type)] or False
