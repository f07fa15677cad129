"""The types of Delta tables: the schema in a table's metadata, and the Arrow schema that its rows have."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from hipslake.errors import CorruptFileError, SchemaMismatchError

_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_TYPES = {name: kind for kind, name in _NAMES.items()}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")


def kept_type(column: str, stored: pa.DataType) -> pa.DataType:
    """The type that a column has in a Delta table.

    Parameters
    ----------
    column : str
    stored : pyarrow.DataType
        As `hipslake.tables.fitting.stored_type` gives it.

    Raises
    ------
    SchemaMismatchError
        Delta has no such type.
    """
    if pa.types.is_fixed_size_binary(stored):
        return pa.binary()
    if stored in _NAMES or pa.types.is_decimal128(stored):
        return stored
    if pa.types.is_list(stored):
        return pa.list_(stored.value_field.with_type(kept_type(column, stored.value_type)))
    if pa.types.is_map(stored):
        return pa.map_(kept_type(column, stored.key_type), kept_type(column, stored.item_type))
    if pa.types.is_struct(stored):
        return pa.struct([field.with_type(kept_type(column, field.type)) for field in stored])
    raise SchemaMismatchError(
        f"column {column!r} is of type {stored}, which Delta tables do not have; leave it out (columns: "
        "...), or store it as a number or a string"
    )


def kept_schema(stored: pa.Schema) -> pa.Schema:
    """The columns of a Delta table for those of `stored`; errors as of `kept_type`.

    Raises
    ------
    SchemaMismatchError
        Without column mapping, a name must not hold one of the characters ` ,;{}()=`, a tab or a line end.
    """
    for field in stored:
        if _FORBIDDEN.search(field.name):
            raise SchemaMismatchError(
                f"column {field.name!r}: names of a Delta table hold none of ' ,;{{}}()=', no tab and no "
                "line end; rename it in the source, or leave it out"
            )
    return pa.schema([field.with_type(kept_type(field.name, field.type)) for field in stored])


def schema_text(schema: pa.Schema, before: str | None = None) -> str:
    """The `schemaString` of a table's metadata.

    Parameters
    ----------
    schema : pyarrow.Schema
    before : str, optional
        That of the table so far: its columns stay as they are written there, further ones come behind.
    """
    told: dict[str, Any] = {"type": "struct", "fields": []} if before is None else json.loads(before)
    known = {field["name"] for field in told["fields"]}
    told["fields"] += [_field(field) for field in schema if field.name not in known]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def schema_of(text: str, where: str) -> pa.Schema:
    """The Arrow schema of a `schemaString`.

    Raises
    ------
    CorruptFileError
        It is no schema of the published format.
    SchemaMismatchError
        A column is of a type that this library does not read.
    """
    try:
        return pa.schema([_arrow_field(field) for field in json.loads(text)["fields"]])
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptFileError(f"{where}: the schema in its metadata makes no sense ({error!r})") from None


def column_metadata(text: str) -> dict[str, dict[str, Any]]:
    """What a `schemaString` says of each column beside its type."""
    return {field["name"]: field.get("metadata") or {} for field in json.loads(text)["fields"]}


def has_naive_times(kind: pa.DataType) -> bool:
    """Whether values of a type are, or hold, times without a zone, which not all readers know."""
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return pa.types.is_nested(kind) and any(
        has_naive_times(kind.field(at).type) for at in range(kind.num_fields)
    )


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": _type(field.type), "nullable": field.nullable, "metadata": {}}


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        element = kind.value_field
        return {"type": "array", "elementType": _type(element.type), "containsNull": element.nullable}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type),
            "valueType": _type(kind.item_type),
            "valueContainsNull": kind.item_field.nullable,
        }
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(field) for field in kind]}
    return _NAMES[kind]


def _arrow_field(told: dict[str, Any]) -> pa.Field:
    return pa.field(told["name"], _arrow_type(told["type"], told["name"]), told.get("nullable", True))


def _arrow_type(told: Any, column: str) -> pa.DataType:
    if isinstance(told, str):
        if match := _DECIMAL.fullmatch(told):
            return pa.decimal128(int(match[1]), int(match[2]))
        if told in _TYPES:
            return _TYPES[told]
    elif told["type"] == "array":
        kind = _arrow_type(told["elementType"], column)
        return pa.list_(pa.field("element", kind, told.get("containsNull", True)))
    elif told["type"] == "map":
        item = pa.field("value", _arrow_type(told["valueType"], column), told.get("valueContainsNull", True))
        return pa.map_(_arrow_type(told["keyType"], column), item)
    elif told["type"] == "struct":
        return pa.struct([_arrow_field(field) for field in told["fields"]])
    raise SchemaMismatchError(
        f"column {column!r} is of Delta's type {told!r}, which this library does not read; have the engine "
        "that wrote it cast it to another type"
    )
