"""Columns as Iceberg keeps them: the types that Arrow columns get, and how rows fit them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids, index_by_id

from hipslake.errors import ConflictError, SchemaMismatchError
from hipslake.tables.stored_files import NAME_MAPPING


def iceberg_schema(stored: pa.Schema) -> Schema:
    """The Iceberg schema of stored columns, with ids from 1 on; all columns may hold nulls."""
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(stored))


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema that data files of a table are written with, field ids included."""
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}  # as all that this library reads
    fields = schema_to_pyarrow(schema, include_field_ids=True)
    return pa.schema([field.with_type(small.get(field.type, field.type)) for field in fields])


def with_name_mapping(schema: pa.Schema, properties: Mapping[str, str]) -> pa.Schema:
    """A table's Arrow schema whose metadata has the name mapping of the table's properties, if it has one."""
    mapping = properties.get(NAME_MAPPING)
    return schema.with_metadata({NAME_MAPPING: mapping}) if mapping else schema


def check_addable(table: str, name: str, standing: Schema) -> None:
    """Check that the name of a new column is unlike those that a table has."""
    if name in standing.column_names:
        raise SchemaMismatchError(
            f"table {table}: {name!r} is the name of a column of the source, and of a part of a nested "
            "column of the table; rename the column in the source, or leave it out"
        )
    alike = [field.name for field in standing.fields if field.name.casefold() == name.casefold()]
    if alike:
        raise SchemaMismatchError(
            f"table {table}: column {name!r} differs by case only from {alike[0]!r} of the table, and many "
            "engines could not tell them apart; rename one of them, or leave the column out"
        )


def check_written(table: str, written: Schema, standing: Schema) -> None:
    """Look whether files that were written in one schema of a table may be added to it in a later one.

    Columns may have been added, renamed or widened: they are known by their ids.

    Raises
    ------
    ConflictError
        A column of the files is gone, or nulls are forbidden where there may be some.
    """
    old, new = index_by_id(written), index_by_id(standing)
    gone = sorted(old[number].name for number in set(old) - set(new))
    required = sorted(
        field.name
        for number, field in new.items()
        if field.required and not (number in old and old[number].required)
    )
    if gone or required:
        what = f"column {', '.join(gone)} is gone" if gone else f"column {', '.join(required)} is required"
        raise ConflictError(f"table {table} was changed while rows were written: {what} by now; run it again")
