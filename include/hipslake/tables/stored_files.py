"""Rows of a table's data files: read by field id, so that renamed and added columns come out right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError, HipslakeError, InputError, SchemaMismatchError, StorageError
from hipslake.joins.nested_forms import is_list
from hipslake.sources.widening import is_bytes, is_text
from hipslake.storage.calendars import check_calendar
from hipslake.storage.folder import Storage
from hipslake.storage.int96 import check_int96, int96_columns, unit_for
from hipslake.storage.parquet_failures import parquet_failures
from hipslake.storage.plain_json import plain_json
from hipslake.tables.deleted_rows import DeleteFile, DeletesOfFile
from hipslake.tables.fitting import number_type
from hipslake.tables.nested_casts import null_column

_BATCH_ROWS = 1 << 18
_FIELD_ID = b"PARQUET:field_id"
NAME_MAPPING = "schema.name-mapping.default"
"""The property of a table with the names of columns in files without field ids."""


@dataclass(frozen=True)
class StoredFile:
    """A data file, and what it does not hold itself.

    Attributes
    ----------
    path : str
    constants : tuple of (int or str, Any)
        Field ids of columns that it may lack, since all its rows have one value there, and that value, as
        records of Iceberg hold it. Files that were imported from partitioned folders are such. Where the
        table's columns have no ids, their names: then the value counts whatever the file has.
    deletes : tuple of DeleteFile
        Files that take rows out of it.
    """

    path: str
    constants: tuple[tuple[int | str, Any], ...] = ()
    deletes: tuple[DeleteFile, ...] = ()


def read_data_file(
    stored_file: StoredFile,
    schema: pa.Schema,
    columns: Sequence[str],
    chosen: Callable[[int], Sequence[int]] = range,
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file that are not deleted, in its order.

    Parameters
    ----------
    stored_file : StoredFile
    schema : pyarrow.Schema
        Of the table, with field ids .
    columns : sequence of str
        Names in the table; what the file lacks is its partition value, or null.
    chosen : callable, optional
        Takes the number of row groups, and says which are read; by default all.

    Raises
    ------
    StorageError
        The file is gone: another writer has taken it out of the table, and its files were removed.
    CorruptFileError
        A delete file is damaged, or lacks a column whose values it should have.
    """
    wanted = pa.schema([schema.field(name) for name in columns])
    if not stored_file.deletes:
        for _, batch in _stored_rows(stored_file, schema, wanted, chosen):
            yield batch
        return
    for batch, stay in _with_deletes(stored_file, schema, wanted, chosen):
        if stay.all():
            yield batch
        elif stay.any():
            yield batch.filter(pa.array(stay))


def count_deleted(
    stored_file: StoredFile, schema: pa.Schema, chosen: Callable[[int], Sequence[int]] = range
) -> int:
    """How many rows of a data file, or of some of its row groups, are deleted; as for `read_data_file`."""
    if not stored_file.deletes:
        return 0
    found = _with_deletes(stored_file, schema, pa.schema([]), chosen)
    return sum(int(len(stay) - stay.sum()) for _, stay in found)


def positions_in_file(
    stored_file: StoredFile, schema: pa.Schema, positions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where rows of a data file stand in it, by their positions among those that are not deleted.

    Parameters
    ----------
    stored_file : StoredFile
    schema : pyarrow.Schema
        Of the table, with field ids.
    positions : int64[n]

    Returns
    -------
    int64[n]
    """
    if not stored_file.deletes:
        return positions
    stays = [stay for _, stay in _with_deletes(stored_file, schema, pa.schema([]), range)]
    found: NDArray[np.int64] = np.flatnonzero(np.concatenate([np.empty(0, bool), *stays]))[positions]
    return found


def _with_deletes(
    stored_file: StoredFile, schema: pa.Schema, wanted: pa.Schema, chosen: Callable[[int], Sequence[int]]
) -> Iterator[tuple[pa.RecordBatch, NDArray[np.bool_]]]:
    """The rows of a data file, and whether each stays."""
    deleted = DeletesOfFile(stored_file.path, stored_file.deletes, read_delete_file)
    numbers = {field_id(field): at for at, field in enumerate(wanted)}
    at: list[int] = []
    more: list[pa.Field] = []
    for column in deleted.columns:
        number = str(column.number).encode()
        if number not in numbers:
            numbers[number] = len(wanted) + len(more)
            more.append(column.field)
        at.append(numbers[number])
    read = pa.schema([*wanted, *more])
    for first, batch in _stored_rows(stored_file, schema, read, chosen, by_group=True):
        # The type that a column has in an older schema, of which the rows are read, may be narrower.
        values = [
            batch.column(place).cast(column.field.type)
            for place, column in zip(at, deleted.columns, strict=True)
        ]
        stay = deleted.stay(first, batch.num_rows, values)
        yield batch.select(range(len(wanted))) if more else batch, stay


def read_delete_file(path: str, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Some columns of a delete file, by their field ids.

    Raises
    ------
    CorruptFileError
        It lacks one; or is gone or damaged.
    """
    gone = CorruptFileError(f"{path}: the table names this delete file, but it does not exist; restore it")
    with opened_parquet(path, gone=gone) as (_, file):
        names = names_in_file(file.schema_arrow, wanted, wanted)
        lacking = [field.name for name, field in zip(names, wanted, strict=True) if name is None]
    if lacking:
        raise CorruptFileError(
            f"{path}: this delete file has no column {', '.join(lacking)}, by whose values it deletes rows; "
            "restore it, or take the table back to a snapshot that is whole"
        )
    for _, batch in _stored_rows(StoredFile(path), wanted, wanted, range):
        yield batch


def _stored_rows(
    stored_file: StoredFile,
    schema: pa.Schema,
    wanted: pa.Schema,
    chosen: Callable[[int], Sequence[int]],
    *,
    by_group: bool = False,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """All rows of a data file; `by_group`: each batch is of one row group, and has its first position."""
    path = stored_file.path
    constants = dict(stored_file.constants)
    given = [constants.get(_known_by(field)) for field in wanted]
    unit = unit_for(schema, schema.names)  # of INT96 times
    gone = StorageError(f"{path}: the table names this file, but it does not exist; try again")
    with opened_parquet(path, gone=gone, coerce_int96_timestamp_unit=unit) as (opened, file):
        stored = file.schema_arrow
        names = names_in_file(stored, schema, wanted)
        names = [None if field.name in constants else name for name, field in zip(names, wanted, strict=True)]
        read = [name for name in names if name is not None]
        check_once(stored, read, path)
        groups = chosen(file.num_row_groups)
        timed = [name for name in int96_columns(file.metadata) if name in read]
        check_int96(opened, timed, groups, unit, path)
        check_calendar(opened, file.metadata, read, groups, path)
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        if not read:
            for group in groups:
                rows = sizes[group]
                arrays = [_repeated(*each, rows) for each in zip(given, wanted, strict=True)]
                yield sum(sizes[:group]), _batch(arrays, wanted, rows)
            return
        for some in [[group] for group in groups] if by_group else [groups]:
            position = sum(sizes[: some[0]]) if by_group else 0
            for batch in file.iter_batches(_BATCH_ROWS, some, read, use_threads=False):
                arrays = [
                    _repeated(value, field, batch.num_rows)
                    if name is None
                    else _cast(
                        batch.column(batch.schema.get_field_index(name)), stored.field(name), field, path
                    )
                    for name, field, value in zip(names, wanted, given, strict=True)
                ]
                yield position, pa.RecordBatch.from_arrays(arrays, schema=wanted)
                position += batch.num_rows


def _batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of so many rows, of no columns as well."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def field_id(field: pa.Field) -> bytes | None:
    """The number of a column, as its file or its table has it."""
    return (field.metadata or {}).get(_FIELD_ID)


def _known_by(field: pa.Field) -> int | str:
    """The id of a column, or its name where it has none."""
    number = field_id(field)
    return field.name if number is None else int(number)


def _aliases(schema: pa.Schema) -> dict[bytes, list[str]]:
    """By field id, what columns are called in files without ids: see Iceberg's "column projection"."""
    mapping = (schema.metadata or {}).get(NAME_MAPPING.encode())
    told = plain_json(mapping) if mapping else []
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
    by_id = {field_id(field): field.name for field in stored}
    aliases = _aliases(schema)

    def name_of(field: pa.Field) -> str | None:
        number = field_id(field)
        if number is not None and None not in by_id:
            return by_id.get(number)
        known = aliases.get(number or b"", [] if aliases else [field.name])
        return next((name for name in known if name in stored.names), None)

    return [name_of(field) for field in wanted]


def check_once(stored: pa.Schema, names: Sequence[str], path: str) -> None:
    """Look that no column of a file comes twice, by name or by id; raise `SchemaMismatchError`."""
    twice = [name for name in names if names.count(name) > 1 or stored.names.count(name) > 1]
    if twice:
        raise SchemaMismatchError(
            f"{path}: column {twice[0]!r} comes twice; write the file anew with it once"
        )


def _cast(values: pa.Array, stored: pa.Field, wanted: pa.Field, path: str) -> pa.Array:
    """Values as the table has them; what is nested is found by its id too."""
    kind = _renamed(stored, wanted).type
    try:
        if not _are_alike(kind, wanted.type):
            raise pa.ArrowInvalid("the values mean something else")
        if pa.types.is_nested(stored.type) and kind != stored.type:
            values = values.cast(stored.type).view(kind)
        return values.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"{path}: column {stored.name!r} is of type {stored.type}, which is not read as {wanted.type} of "
            f"column {wanted.name!r} of the table ({str(error).partition(chr(10))[0]}); write the file anew "
            "with the table's type"
        ) from None


_KINDS = (
    (pa.types.is_boolean,),
    (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    (pa.types.is_date, pa.types.is_timestamp),
    (pa.types.is_time,),
    (is_text, is_bytes, pa.types.is_fixed_size_binary),
)
"""Types whose values may be cast into each other; Arrow would make numbers of texts, and times of numbers."""


def _are_alike(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether a cast keeps what values mean, or fails."""
    old, new = (kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind for kind in (old, new))
    old, new = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (old, new))
    if pa.types.is_null(old):
        return True
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        theirs = {field.name: field.type for field in new}
        return all(_are_alike(field.type, theirs.get(field.name, field.type)) for field in old)
    if pa.types.is_map(old) and pa.types.is_map(new):
        return _are_alike(old.key_type, new.key_type) and _are_alike(old.item_type, new.item_type)
    if is_list(old) and is_list(new):
        return _are_alike(old.value_type, new.value_type)
    if pa.types.is_nested(old) or pa.types.is_nested(new):
        return old == new
    return any(any(is_of(old) for is_of in kinds) and any(is_of(new) for is_of in kinds) for kinds in _KINDS)


def _renamed(stored: pa.Field, wanted: pa.Field) -> pa.Field:
    """A field of a file, with the names that its parts have in the table; Arrow casts by name."""
    old, new = stored.type, wanted.type
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        by_id = {field_id(field): field for field in new}
        parts = []
        for at, part in enumerate(old):
            if field_id(part) is None:
                parts.append(part)
            elif field_id(part) in by_id:
                now = by_id[field_id(part)]
                parts.append(_renamed(part, now).with_name(now.name))
            else:
                parts.append(part.with_name(f"left out {at}"))
        return stored.with_type(pa.struct(parts))
    if is_list(old) and is_list(new):
        made = pa.list_ if pa.types.is_list(old) else pa.large_list
        return stored.with_type(made(_renamed(old.value_field, new.value_field)))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return stored.with_type(
            pa.map_(_renamed(old.key_field, new.key_field), _renamed(old.item_field, new.item_field))
        )
    return stored


def _repeated(value: Any, field: pa.Field, rows: int) -> pa.Array:
    """A column with one value; nulls for None."""
    kind = field.type
    if value is None:
        return null_column(kind, rows)
    if pa.types.is_temporal(kind):
        return pa.repeat(pa.scalar(value, number_type(kind)), rows).view(kind)
    if isinstance(kind, pa.BaseExtensionType):
        data = value.bytes if isinstance(value, UUID) else bytes(value)
        return pa.ExtensionArray.from_storage(kind, pa.repeat(pa.scalar(data, kind.storage_type), rows))
    return pa.repeat(pa.scalar(value, kind), rows)


_BATCH_BYTES = 64 << 20


@contextmanager
def opened_parquet(
    path: str, size: int | None = None, *, gone: HipslakeError | None = None, **options: Any
) -> Iterator[tuple[Any, pq.ParquetFile]]:
    """A file, and its reader.

    Parameters
    ----------
    path : str
    size : int, optional
        In bytes, where it is known.
    gone : HipslakeError, optional
        What is raised if there is no such file; by default an `InputError`.
    **options
        Of `pyarrow.parquet.ParquetFile`.

    Raises
    ------
    CorruptFileError
        It is no Parquet file, or damaged, where it is read in the block.
    InputError
        It is gone, encrypted, or holds what pyarrow does not read.
    """
    storage, name = Storage.of_file(path)
    try:
        with (
            parquet_failures(path),
            storage.arrow_file(name, size) as opened,
            pq.ParquetFile(opened, **options) as parquet,
        ):
            yield opened, parquet
    except FileNotFoundError:
        raise gone or InputError(f"{path} was deleted after it was listed; start a new run") from None


def batch_rows(metadata: pq.FileMetaData) -> int:
    """How many rows of a file are read at once, so that wide ones take no more memory than others."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    return int(max(1, min(_BATCH_ROWS, _BATCH_BYTES * max(metadata.num_rows, 1) // max(size, 1))))
