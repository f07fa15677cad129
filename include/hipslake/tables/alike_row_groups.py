"""Row groups that span about the same values, so that the rows of some tell how those of all are spread."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.errors import StorageError
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.tables.stored_files import StoredFile, names_in_file, opened_parquet

_WIDTH = 0.9  # of the span of all row groups, that each one's has to have
_NUMBERS = ("INT32", "INT64", "FLOAT", "DOUBLE")


def alike_in_file(stored_file: StoredFile, schema: pa.Schema, columns: Sequence[str]) -> tuple[int, ...]:
    """As `alike_row_groups`, of a data file of a table.

    Parameters
    ----------
    stored_file : StoredFile
    schema : pyarrow.Schema
        Of the table, with field ids.
    columns : sequence of str
        Names in the table. One that the file lacks has the same value in all rows.

    Raises
    ------
    StorageError
        The file is gone.
    CorruptFileError
    """
    gone = StorageError(f"{stored_file.path}: the table names this file, but it does not exist; try again")
    with opened_parquet(stored_file.path, gone=gone) as (_, file):
        names = names_in_file(file.schema_arrow, schema, [schema.field(name) for name in columns])
        return alike_row_groups(file.metadata, {name for name in names if name is not None})


def alike_row_groups(metadata: pq.FileMetaData, columns: Collection[str]) -> tuple[int, ...]:
    """How many rows each row group has, if all span about the same numbers in some columns; else nothing.

    Those of a file that is sorted by one of them do not, nor do texts or nested columns: there is no telling.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
    columns : collection of str
        Names in the file.
    """
    chunks = ColumnChunks(metadata)
    groups = range(metadata.num_row_groups)
    paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    if not set(columns) <= set(paths):
        return ()  # some are nested, or are not there
    places = [place for place, path in enumerate(paths) if path in columns]
    for place in places:
        bounds = [_bounds(chunks(group, place)) for group in groups]
        known = [each for each in bounds if each is not None]
        if len(known) < len(bounds):
            return ()
        span = max((high for _, high in known), default=0) - min((low for low, _ in known), default=0)
        if not math.isfinite(span) or any(high - low < _WIDTH * span for low, high in known):
            return ()
    return tuple(metadata.row_group(group).num_rows for group in groups)


def _bounds(chunk: pq.ColumnChunkMetaData) -> tuple[float, float] | None:
    """The bounds of a chunk of numbers, where its footer tells them."""
    if chunk.physical_type not in _NUMBERS or not chunk.is_stats_set or chunk.statistics is None:
        return None
    if not chunk.statistics.has_min_max:
        return None
    return chunk.statistics.min_raw, chunk.statistics.max_raw
