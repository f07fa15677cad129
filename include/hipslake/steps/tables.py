"""Tables in the run folder: Parquet, read and written whole."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import damage_as_error


def write_table(storage: Storage, path: str, table: pa.Table) -> None:
    """Store a table, whole or not at all."""
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    # Most numbers ascend or are small: as differences, millions are written and read in half the time.
    numbers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=texts or False,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    )
    storage.write(path, sink.getvalue(), durable=False)


def read_table(
    storage: Storage, path: str, columns: list[str] | None = None, filters: pc.Expression | None = None
) -> pa.Table:
    """The table stored at a path: all of it, or some columns, and the rows that a filter lets through."""
    data = storage.read(path)
    with damage_as_error(storage.uri(path)):
        return pq.read_table(pa.BufferReader(data), columns=columns, filters=filters)
