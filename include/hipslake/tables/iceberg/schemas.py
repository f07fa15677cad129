"""Columns as Iceberg keeps them: the types that Arrow columns get, and how a table takes further columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, index_by_id

from hipslake.errors import ConflictError, SchemaMismatchError
from hipslake.joins.nested_forms import are_two_forms, other_form
from hipslake.tables.fitting import stored_type
from hipslake.tables.stored_files import NAME_MAPPING

_ICEBERG: dict[pa.DataType, Callable[[], iceberg.IcebergType]] = {
    pa.bool_(): iceberg.BooleanType,
    pa.int32(): iceberg.IntegerType,
    pa.int64(): iceberg.LongType,
    pa.float32(): iceberg.FloatType,
    pa.float64(): iceberg.DoubleType,
    pa.string(): iceberg.StringType,
    pa.binary(): iceberg.BinaryType,
    pa.date32(): iceberg.DateType,
    pa.time64("us"): iceberg.TimeType,
    pa.timestamp("us"): iceberg.TimestampType,
    pa.timestamp("us", tz="UTC"): iceberg.TimestamptzType,
    pa.uuid(): iceberg.UUIDType,
}

_WIDER = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}


def iceberg_schema(stored: pa.Schema) -> Schema:
    """The Iceberg schema of stored columns, with ids from 1 on; all columns may hold nulls."""
    numbers = count(1)
    fields = [(field.name, next(numbers), field.type) for field in stored]
    return Schema(
        *[
            iceberg.NestedField(number, name, iceberg_type(kind, numbers), required=False)
            for name, number, kind in fields
        ]
    )


def iceberg_type(kind: pa.DataType, numbers: Iterable[int]) -> iceberg.IcebergType:
    """The Iceberg type of a stored type; `numbers` gives the ids of what is nested in it."""
    ids = iter(numbers)
    if pa.types.is_decimal(kind):
        return iceberg.DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return iceberg.FixedType(kind.byte_width)
    if pa.types.is_list(kind):
        number = next(ids)
        return iceberg.ListType(number, iceberg_type(kind.value_type, ids), element_required=False)
    if pa.types.is_struct(kind):
        named = [(field, next(ids)) for field in kind]
        return iceberg.StructType(
            *[
                iceberg.NestedField(number, field.name, iceberg_type(field.type, ids), required=False)
                for field, number in named
            ]
        )
    if pa.types.is_map(kind):
        key, value = next(ids), next(ids)
        return iceberg.MapType(
            key,
            iceberg_type(kind.key_type, ids),
            value,
            iceberg_type(kind.item_type, ids),
            value_required=False,
        )
    return _ICEBERG[kind]()


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema that data files of a table are written with, field ids included."""
    return pa.schema([_narrowed(field) for field in schema_to_pyarrow(schema, include_field_ids=True)])


def with_name_mapping(schema: pa.Schema, properties: Mapping[str, str]) -> pa.Schema:
    """A table's Arrow schema whose metadata has the name mapping of the table's properties, if it has one."""
    mapping = properties.get(NAME_MAPPING)
    return schema.with_metadata({NAME_MAPPING: mapping}) if mapping else schema


def _narrowed(field: pa.Field) -> pa.Field:
    """A column with 32-bit offsets, as all that this library reads."""
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return field.with_type(small.get(field.type, field.type))


def missing_columns(table: str, standing: Schema, stored: pa.Schema) -> list[pa.Field]:
    """The columns that a table has to get before the rows fit.

    Raises
    ------
    SchemaMismatchError
        A column has another type in the table, which does not hold all values of the new one; or the table
        requires a column that the rows lack.
    """
    kinds = {field.name: field for field in arrow_schema(standing)}
    missing = []
    for field in stored:
        if field.name not in kinds:
            _check_addable(table, field.name, standing)
            missing.append(field)
            continue
        old = kinds[field.name].type
        if not _holds(old, field.type):
            narrowing = (old, field.type) in _WIDER
            what = "is narrower, and would lose values" if narrowing else "is another type"
            raise SchemaMismatchError(
                f"table {table}: column {field.name!r} is of type {old} there and {field.type} in the "
                f"source; the table's {what}. Change the source, leave the column out, or widen it in the "
                "table first"
            )
    given = set(stored.names)
    required = sorted(f.name for f in standing.fields if f.required and f.name not in given)
    if required:
        raise SchemaMismatchError(
            f"table {table} requires column {', '.join(required)}, which the source lacks; add it to "
            "the source"
        )
    return missing


def _check_addable(table: str, name: str, standing: Schema) -> None:
    """Check that the name of a new column is unlike those that a table has."""
    for known in standing.column_names:
        if known == name:
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


def _holds(table: pa.DataType, source: pa.DataType) -> bool:
    if pa.types.is_decimal(table) and pa.types.is_decimal(source):
        return table.scale == source.scale and table.precision >= source.precision
    if pa.types.is_nested(table) or pa.types.is_nested(source):
        same = other_form(source) if are_two_forms(table, source) else source
        return _shape(table) == _shape(same)
    return table == source or (source, table) in _WIDER


def _shape(kind: pa.DataType) -> str:
    """A nested type without ids, names of elements, or widths of offsets."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_shape(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_shape(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_shape(kind.key_type)}, {_shape(kind.item_type)}>"
    return str(stored_type("", kind))
