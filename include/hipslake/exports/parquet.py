"""Exports as Parquet: types, units and descriptions as they are in the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.exports.model import Origin

ROW_GROUP_ROWS = 100_000
_ROW_GROUP_BYTES = 128 << 20


class ParquetTables:
    """Writes Parquet, zstd. The origin is in the file's key-value metadata, as `hipslake.<name>`."""

    def check(self, schema: pa.Schema) -> None:
        """Every column of a catalog came from Parquet, and fits."""

    def write(self, file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], origin: Origin) -> int:
        told = {f"hipslake.{name}": text for name, text in origin.told().items()}
        rows = 0
        with pq.ParquetWriter(file, schema.with_metadata(told), compression="zstd") as writer:
            for table in _gathered(tables):
                writer.write_table(table.replace_schema_metadata(told), row_group_size=ROW_GROUP_ROWS)
                rows += table.num_rows
        return rows


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables large enough for a row group: leaves of few rows would make a long footer."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(waiting)
