"""How rows fit a table: their columns as tables keep them, and what a spec asks of these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from hipslake.errors import InputError, SchemaMismatchError, SpecError
from hipslake.joins.nested_forms import are_two_forms, in_other_form, other_form
from hipslake.specs.partition_fields import PartitionField, TransformName
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import TableMode
from hipslake.tables.nested_casts import nested_cast, null_column
from hipslake.tables.sink_order import SinkOrder
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
_KEPT = (
    *(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32(), pa.uuid()),
)

WIDER = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
"""Types of a source, and those of a table that hold all of their values."""


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
    if kind in _KEPT:
        return kind
    raise SchemaMismatchError(
        f"column {column!r} is of type {kind}, which Iceberg tables do not have; leave it out (columns: "
        "...), or store it as a number or a string"
    )


def holds_type(table: pa.DataType, source: pa.DataType) -> bool:
    """Whether a column of a table holds all values of one of a source, as it keeps them."""
    if pa.types.is_decimal(table) and pa.types.is_decimal(source):
        return table.scale == source.scale and table.precision >= source.precision
    if pa.types.is_nested(table) or pa.types.is_nested(source):
        same = other_form(source) if are_two_forms(table, source) else source
        return stored_type("", table) == stored_type("", same)  # whatever their ids and widths of offsets
    return table == source or (source, table) in WIDER


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


def check_fields(spec: TableSpec, stored: pa.Schema) -> None:
    """Look whether partition, sort order, key and interval name columns of the rows, of types that will do.

    Raises
    ------
    SchemaMismatchError
        There is no such column.
    SpecError
        A transform has no meaning for its column's type.
    """
    check_field_names(spec, stored.names)
    for what, name in (("duplicates", spec.duplicates.last_by), ("order_by", spec.order_by)):
        if name is None:
            continue
        kind = stored.field(name).type
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            raise SpecError(
                f"{what}: column {name!r} is of type {kind}, whose values have no order; take a "
                "number, a time or a text"
            )
    for field in (*spec.partition, *(sort.field for sort in spec.sort)):
        result_type(in_table(field), stored.field(field.column).type)
    for field in spec.partition:
        if field.name != field.column and field.name in stored.names:
            raise SchemaMismatchError(
                f"partition: the field of {field} is called {field.name!r}, and so is a column; rename "
                "the column"
            )


def check_field_names(spec: TableSpec, columns: Sequence[str]) -> None:
    """Look whether partition, sort order, key and interval name columns of the rows.

    Raises
    ------
    SchemaMismatchError
        There is no such column.
    """
    fields = [("partition", f) for f in spec.partition] + [("sort", f.field) for f in spec.sort]
    named = [(what, field.column) for what, field in fields]
    named += [("key", name) for name in spec.key]
    named += [("duplicates", name) for name in (spec.duplicates.last_by,) if name]
    named += [("order_by", name) for name in (spec.order_by,) if name]
    named += [("interval", name) for name in (spec.interval,) if name]
    for what, name in named:
        if name not in columns:
            raise SchemaMismatchError(
                f"{what}: the rows have no column {name!r}; they have {', '.join(columns)}"
            )


def in_table(field: PartitionField) -> PartitionField:
    """A field as the table sees it: a pixel is a column there."""
    return PartitionField.parse(f"{field.iceberg_transform}({field.column})")


def check_interval(order: SinkOrder, stored: pa.Schema) -> None:
    spec = order.spec
    if spec.mode is not TableMode.OVERWRITE_INTERVAL or spec.interval not in stored.names:
        return
    if order.start is None:
        raise SpecError(f"{spec.name}: mode overwrite-interval replaces the rows of an interval; give one")
    kind = stored.field(spec.interval).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise SpecError(
            f"interval: column {spec.interval!r} is of type {kind}; an interval is of dates or timestamps"
        )


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


def arrow_internal(array: pa.Array) -> list[Any]:
    """Values of an Arrow array as records of Iceberg hold them."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    elif pa.types.is_temporal(kind):
        array = array.view(number_type(kind))
    return array.to_pylist()  # type: ignore[no-any-return]


def from_internal(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The inverse of `arrow_internal`."""
    if pa.types.is_temporal(kind):
        return pa.array(values, number_type(kind)).view(kind)
    return pa.array(values, kind)


def number_type(time: pa.DataType) -> pa.DataType:
    """The integers that values of a temporal type are."""
    return pa.int32() if time.bit_width == 32 else pa.int64()


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        rows = in_other_form(column) if are_two_forms(column.type, field.type) else column
        return nested_cast(rows, field.type)
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
