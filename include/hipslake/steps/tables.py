"""Tables in the run folder: Parquet, read and written whole."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.storage import Storage


def write_table(storage: Storage, path: str, table: pa.Table) -> None:
    """Store a table, whole or not at all."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    storage.write(path, sink.getvalue(), durable=False)


def read_table(storage: Storage, path: str) -> pa.Table:
    """The table stored at a path."""
    return pq.read_table(pa.BufferReader(storage.read(path)))
