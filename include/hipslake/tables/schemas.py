"""Columns as Iceberg keeps them: the types that Arrow columns get, and how a table takes further columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count

import numpy as np
import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, index_by_id

from hipslake.errors import ConflictError, InputError, SchemaMismatchError
from hipslake.joins.nested_forms import are_two_forms, in_other_form, other_form
from hipslake.specs.partition_fields import PartitionField, TransformName
from hipslake.tables.transforms import partition_values, result_type

_PLAIN: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
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
NAME_MAPPING = "schema.name-mapping.default"
"""The property of a table that tells what columns are called in files without field ids."""

_WIDER = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}


def stored_type(column: str, kind: pa.DataType) -> pa.DataType:
    """The type that a column has in an Iceberg table: times in microseconds, whole numbers with a sign.

    Raises
    ------
    SchemaMismatchError
        Iceberg has no such type.
    """
    if pa.types.is_dictionary(kind):
        return stored_type(column, kind.value_type)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return kind
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", stored_type(column, kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, stored_type(column, field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(stored_type(column, kind.key_type), stored_type(column, kind.item_type))
    if kind in _ICEBERG:
        return kind
    raise SchemaMismatchError(
        f"column {column!r} is of type {kind}, which Iceberg tables do not have; leave it out (columns: "
        "...), or store it as a number or a string"
    )


def stored_schema(
    source: pa.Schema, columns: Iterable[str] | None, derived: Iterable[PartitionField]
) -> pa.Schema:
    """The columns that a sink gives a table: those of its source as Iceberg keeps them, and derived pixels.

    Parameters
    ----------
    source : pyarrow.Schema
    columns : iterable of str, optional
        Those that are wanted, in the order of the source; None: all.
    derived : iterable of PartitionField
        Fields whose column may have to be made: `healpix`.

    Raises
    ------
    SchemaMismatchError
        A column is missing, or Iceberg has no type for it, or two have one name.
    """
    wanted = source.names if columns is None else list(columns)
    _require(wanted, source.names, "the source")
    kept = [field for field in source if field.name in set(wanted)]
    fields = {field.name: stored_type(field.name, field.type) for field in kept}
    for field in derived:
        _require([field.source], source.names, f"the source, which {field} needs,")
        if field.transform is TransformName.HEALPIX:
            made = result_type(field, source.field(field.source).type)
            if fields.setdefault(field.column, made) != made:
                raise SchemaMismatchError(
                    f"column {field.column!r} of the source is not the pixel that {field} stands for; "
                    "rename it"
                )
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


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
    """Look that a new column can be told from those that a table has."""
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


def conformed(
    batch: pa.RecordBatch, schema: pa.Schema, derived: Iterable[PartitionField] = ()
) -> pa.RecordBatch:
    """Rows of a source as a table keeps them; what the source lacks is null or made.

    Raises
    ------
    InputError
        A value does not fit: say a time with parts of a microsecond, or a null that the table forbids.
    """
    made = {field.column: field for field in derived if field.transform is TransformName.HEALPIX}
    arrays = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0 and field.name in made:
            pixel = made[field.name]
            source = batch.column(batch.schema.get_field_index(pixel.source))
            arrays.append(partition_values(pixel, source).cast(field.type))
        elif at < 0:
            arrays.append(null_column(field.type, batch.num_rows))
        else:
            arrays.append(_cast(batch.column(at), field))
        if not field.nullable and arrays[-1].null_count:
            raise InputError(
                f"column {field.name!r}: {arrays[-1].null_count} rows or more of the source have none, and "
                "the table requires it; filter them out, or make the column optional in the table"
            )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def null_column(kind: pa.DataType, rows: int) -> pa.Array:
    """A column without values.

    Below a null struct, parts that are required have a value of no meaning: Arrow looks for nulls there
    without looking at the struct.
    """
    if not pa.types.is_nested(kind):
        return pa.nulls(rows, kind)
    return pa.array([None], kind).take(pa.array(np.zeros(rows, np.int64)))


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        rows = in_other_form(column) if are_two_forms(column.type, field.type) else column
        return rows.cast(field.type, safe=True)
    except (ValueError, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"column {field.name!r}: a value of {column.type} does not fit {field.type}, as which the "
            f"table keeps it: {error}; round it in the source, or leave the column out"
        ) from None


def _require(names: Iterable[str], known: list[str], where: str) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise SchemaMismatchError(
            f"{where} has no column {', '.join(map(repr, unknown))}; its columns are {', '.join(known)}"
        )
