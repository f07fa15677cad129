"""Indices: what the files of one hold, and where they lie."""

from __future__ import annotations

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.layouts import index_root
from hipslake.catalog.metadata import GroupMetadata
from hipslake.sphere.pixels import HEALPIX_COLUMN

ROWS_COLUMN = "rows"
_ROW_GROUP_ROWS = 65_536


def index_schema(column: pa.Field) -> pa.Schema:
    """The columns of an index file, as HATS readers expect them, and `_healpix_29` and the count of rows.

    Parameters
    ----------
    column : pyarrow.Field
        The column of the catalog.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return pa.schema(
        [
            pa.field(column.name, kind, nullable=False),
            pa.field(HEALPIX_COLUMN, pa.int64(), nullable=False),
            pa.field(ROWS_COLUMN, pa.int64(), nullable=False),
            pa.field("Norder", pa.uint8(), nullable=False),
            pa.field("Npix", pa.uint64(), nullable=False),
        ]
    )


def encode_index(table: pa.Table) -> pa.Buffer:
    """The bytes of an index file; the table is sorted."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        version="2.6",
        compression="zstd",
        row_group_size=_ROW_GROUP_ROWS,
        sorting_columns=[pq.SortingColumn(0)],
        write_page_index=True,
    )
    return sink.getvalue()


def leaves_digest(group: GroupMetadata) -> str:
    """A digest of the leaf pixels of a group, to compare those of two versions."""
    text = json.dumps({str(order): pixels for order, pixels in sorted(group.pixels.items())})
    return hashlib.sha256(text.encode()).hexdigest()


def index_file_path(write_id: str, column: str, sha256: str) -> str:
    """A file of an index; named by its content, so that it may stand beside files of other writes."""
    return f"{index_root(write_id, column)}/dataset/index/part-{sha256[:16]}.parquet"
