"""Rows of a table's data files: read by field id, so that renamed and added columns come out right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.errors import StorageError
from hipslake.storage import Storage
from hipslake.tables.schemas import NAME_MAPPING

_BATCH_ROWS = 1 << 18
_FIELD_ID = b"PARQUET:field_id"


def read_data_file(
    path: str, schema: pa.Schema, columns: Sequence[str], chosen: Callable[[int], Sequence[int]] = range
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file, in its order.

    Parameters
    ----------
    path : str
    schema : pyarrow.Schema
        Of the table, with field ids (`hipslake.tables.schemas.arrow_schema`).
    columns : sequence of str
        Names in the table; what the file lacks is null.
    chosen : callable, optional
        Takes the number of row groups, and says which are read; by default all.

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
        names = names_in_file(stored, schema, wanted)
        read = [name for name in names if name is not None]
        groups = chosen(file.num_row_groups)
        if not read:
            for group in groups:
                yield _nulls(wanted, file.metadata.row_group(group).num_rows)
            return
        for batch in file.iter_batches(_BATCH_ROWS, groups, read, use_threads=False):
            arrays = [
                pa.nulls(batch.num_rows, field.type)
                if name is None
                else _cast(batch.column(batch.schema.get_field_index(name)), stored.field(name), field)
                for name, field in zip(names, wanted, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _id_of(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(_FIELD_ID)


def _aliases(schema: pa.Schema) -> dict[bytes, list[str]]:
    """By field id, what columns are called in files without ids: see Iceberg's "column projection"."""
    mapping = (schema.metadata or {}).get(NAME_MAPPING.encode())
    told = json.loads(mapping) if mapping else []
    return {str(each["field-id"]).encode(): each["names"] for each in told if "field-id" in each}


def names_in_file(stored: pa.Schema, schema: pa.Schema, wanted: Iterable[pa.Field]) -> list[str | None]:
    """What columns of a table are called in a file; None for those that it lacks.

    Parameters
    ----------
    stored : pyarrow.Schema
        Of the file. Files from elsewhere may know no field ids.
    schema : pyarrow.Schema
        Of the table; without field ids, names count.
    wanted : iterable of pyarrow.Field
        Columns of the table.
    """
    by_id = {_id_of(field): field.name for field in stored}
    aliases = _aliases(schema)

    def name_of(field: pa.Field) -> str | None:
        number = _id_of(field)
        if number is not None and None not in by_id:
            return by_id.get(number)
        known = aliases.get(number or b"", [] if aliases else [field.name])
        return next((name for name in known if name in stored.names), None)

    return [name_of(field) for field in wanted]


def _cast(values: pa.Array, stored: pa.Field, wanted: pa.Field) -> pa.Array:
    """Values as the table has them; what is nested is found by its id too."""
    if pa.types.is_nested(stored.type):
        renamed = _renamed(stored, wanted).type
        if renamed != stored.type:
            values = values.cast(stored.type).view(renamed)
    return values.cast(wanted.type)


def _renamed(stored: pa.Field, wanted: pa.Field) -> pa.Field:
    """A field of a file, with the names that its parts have in the table; Arrow casts by name."""
    old, new = stored.type, wanted.type
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        by_id = {_id_of(field): field for field in new}
        parts = []
        for at, part in enumerate(old):
            if _id_of(part) is None:
                parts.append(part)
            elif _id_of(part) in by_id:
                now = by_id[_id_of(part)]
                parts.append(_renamed(part, now).with_name(now.name))
            else:
                parts.append(part.with_name(f"left out {at}"))
        return stored.with_type(pa.struct(parts))
    if _is_list(old) and _is_list(new):
        made = pa.list_ if pa.types.is_list(old) else pa.large_list
        return stored.with_type(made(_renamed(old.value_field, new.value_field)))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return stored.with_type(
            pa.map_(_renamed(old.key_field, new.key_field), _renamed(old.item_field, new.item_field))
        )
    return stored


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _nulls(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
