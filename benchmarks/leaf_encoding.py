"""How every system of the ingest benchmark encodes its leaf files.

Equal codec, level, encodings, page size and row groups for all, or the comparison would be one of codecs.
It is what hats 0.11 writes by default, with the level left open: DELTA_BINARY_PACKED for the sorted index,
BYTE_STREAM_SPLIT for floats, dictionaries for the rest (of at most 1 MiB, pyarrow's own limit).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

INDEX_COLUMN = "_healpix_29"
ROW_GROUP_ROWS = 100_000
PAGE_BYTES = 128 * 1024
DICTIONARY_BYTES = 1024 * 1024


def writer_options(schema: pa.Schema, level: int) -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter` for leaves of a schema that has `_healpix_29` in it."""
    encodings = {field.name: "BYTE_STREAM_SPLIT" for field in schema if pa.types.is_floating(field.type)}
    encodings[INDEX_COLUMN] = "DELTA_BINARY_PACKED"
    return {
        "compression": "zstd",
        "compression_level": level,
        "column_encoding": encodings,
        "use_dictionary": [name for name in schema.names if name not in encodings],
        "dictionary_pagesize_limit": DICTIONARY_BYTES,
        "data_page_size": PAGE_BYTES,
        "write_page_index": True,
        "sorting_columns": pq.SortingColumn.from_ordering(schema, [(INDEX_COLUMN, "ascending")]),
    }
