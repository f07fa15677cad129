"""Rows of a table's data files: read by field id, so that renamed and added columns come out right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.errors import StorageError
from hipslake.storage import Storage

_BATCH_ROWS = 1 << 18
_FIELD_ID = b"PARQUET:field_id"


def read_data_file(path: str, schema: pa.Schema, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a data file, in its order.

    Parameters
    ----------
    path : str
    schema : pyarrow.Schema
        Of the table, with field ids (`hipslake.tables.schemas.arrow_schema`).
    columns : sequence of str
        Names in the table; what the file lacks is null.

    Raises
    ------
    StorageError
        The file is gone: another writer has taken it out of the table, and its files were removed.
    """
    wanted = pa.schema([schema.field(name) for name in columns])
    storage, name = Storage.of_file(path)
    try:
        file = pq.ParquetFile(storage.arrow_file(name))
    except FileNotFoundError:
        raise StorageError(f"{path}: the table names this file, but it does not exist; try again") from None
    with file:
        stored = file.schema_arrow
        by_id = {(field.metadata or {}).get(_FIELD_ID): field.name for field in stored}
        names = [_name_in(stored, by_id, field) for field in wanted]
        read = [name for name in names if name is not None]
        if not read:
            for group in range(file.num_row_groups):
                yield _nulls(wanted, file.metadata.row_group(group).num_rows)
            return
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=read, use_threads=False):
            arrays = [
                pa.nulls(batch.num_rows, field.type)
                if name is None
                else batch.column(batch.schema.get_field_index(name)).cast(field.type)
                for name, field in zip(names, wanted, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _name_in(stored: pa.Schema, by_id: dict[bytes | None, str], field: pa.Field) -> str | None:
    """What a column of the table is called in a file. Files from elsewhere may know no ids."""
    if None in by_id:
        return field.name if field.name in stored.names else None
    return by_id.get((field.metadata or {}).get(_FIELD_ID))


def _nulls(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
