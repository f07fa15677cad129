"""What the schema of an Avro file means in Arrow, and how records become columns.

A record within a record becomes columns of its own: the names of the path, joined. An array of records
becomes a struct of equally long lists, as time series are stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from hipslake.errors import CorruptFileError, InputError
from hipslake.joins.nested_forms import in_other_form, is_list, other_form

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_DEEPEST = 32
_MOST_FIELDS = 100_000


class AvroField(NamedTuple):
    """A field of a record.

    Attributes
    ----------
    name
        In its record.
    encoded
        Its type as Avro writes it, without names and logical types: what the bytes are decoded by.
    kind
        What the decoded values are built as.
    nullable
        Whether it may be null.
    document
        What the schema says of it.
    """

    name: str
    encoded: Any
    kind: pa.DataType
    nullable: bool
    document: str

    def arrow(self) -> pa.Field:
        metadata = {"description": self.document} if self.document else None
        return pa.field(self.name, self.kind, self.nullable, metadata)


def fields_of(schema: Any, uri: str) -> tuple[AvroField, ...]:
    """The fields of the records of a file.

    Raises
    ------
    InputError
        The schema has what is not read; the message names the field.
    CorruptFileError
        It is no schema.
    """
    return _Reading(uri).record(schema)


class _Reading:
    """Reads one schema; types have names by which they stand again."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._named: dict[str, Any] = {}
        self._open: list[str] = []  # records that are being read
        self._fields = self._types = 0

    def record(self, schema: Any) -> tuple[AvroField, ...]:
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise InputError(
                f"{self._uri}: its values are no records; write records with a field for each column"
            )
        return self._record(schema, "", "")[0]

    def _record(self, schema: dict[str, Any], space: str, path: str) -> tuple[tuple[AvroField, ...], str]:
        name, space = self._name(schema, space)
        if name in self._open or len(self._open) > _DEEPEST:
            at = f" at {path}" if path else ""
            raise InputError(
                f"{self._uri}: record {name!r}{at} is nested in itself, or very deep, which columns are not; "
                "write the file without it"
            )
        given = schema.get("fields")
        if not isinstance(given, list) or not all(
            isinstance(field, dict) and isinstance(field.get("name"), str) and "type" in field
            for field in given
        ):
            raise CorruptFileError(
                f"{self._uri}: the schema's record {name!r} has no fields; replace the file"
            )
        if not given:
            raise InputError(
                f"{self._uri}: record {name!r} has no fields, so it is no columns; write it without"
            )
        self._open.append(name)
        found = tuple(self._field(field, space, path) for field in given)
        self._open.pop()
        return found, space

    def _field(self, field: dict[str, Any], space: str, path: str) -> AvroField:
        self._fields += 1
        if self._fields > _MOST_FIELDS:
            raise InputError(f"{self._uri}: the schema has more than {_MOST_FIELDS} fields; write fewer")
        where = f"{path}.{field['name']}" if path else field["name"]
        encoded, kind, nullable = self._type(field["type"], space, where)
        document = field.get("doc")
        return AvroField(
            field["name"], encoded, kind, nullable, document if isinstance(document, str) else ""
        )

    def _type(self, given: Any, space: str, path: str) -> tuple[Any, pa.DataType, bool]:
        """The type as it is encoded, what it becomes, and whether it may be null."""
        if isinstance(given, list):
            some = [each for each in given if each != "null"]
            if len(some) != 1:
                raise self._refused(path, f"is one of {len(some)} types")
            encoded, kind, nullable = self._type(some[0], space, path)
            if nullable:
                raise self._refused(path, "is a union of unions")
            return [("null" if each == "null" else encoded) for each in given], kind, len(given) > 1
        if isinstance(given, str):
            if given in _PLAIN:
                return given, _PLAIN[given], False
            name = given if "." in given or not space else f"{space}.{given}"
            if given == "null" or name not in self._named | dict.fromkeys(self._open):
                raise self._refused(path, f"has the type {given!r}")
            return self._again(name, path)
        if not isinstance(given, dict) or "type" not in given:
            raise CorruptFileError(
                f"{self._uri}: the schema says no type of field {path!r}; replace the file"
            )
        return self._described(given, space, path)

    def _described(self, given: dict[str, Any], space: str, path: str) -> tuple[Any, pa.DataType, bool]:
        kind = given["type"]
        if isinstance(kind, dict | list):
            return self._type(kind, space, path)
        if kind in ("record", "error"):
            name, inner = self._name(given, space)
            fields, _ = self._record(given, space, path)
            self._named[name] = (given, inner)
            encoded = {
                "type": "record",
                "name": self._new_name(),
                "fields": [{"name": field.name, "type": field.encoded} for field in fields],
            }
            return encoded, pa.struct([field.arrow() for field in fields]), False
        if kind == "array":
            return self._array(given, space, path)
        if kind in ("enum", "fixed"):
            name, inner = self._name(given, space)
            self._named[name] = (given, inner)
            return self._sized(given, path)
        logical = given.get("logicalType")
        if logical == "decimal":
            raise self._refused(path, "is a decimal")
        found = _LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
        if found is not None:
            return kind, found, False
        return self._type(kind, space, path)

    def _array(self, given: dict[str, Any], space: str, path: str) -> tuple[Any, pa.DataType, bool]:
        encoded, kind, nullable = self._type(given.get("items"), space, path)
        if nullable and pa.types.is_struct(kind):
            raise self._refused(path, "is an array whose records may be null")
        return {"type": "array", "items": encoded}, pa.list_(pa.field("item", kind, nullable)), False

    def _sized(self, given: dict[str, Any], path: str) -> tuple[Any, pa.DataType, bool]:
        name = self._new_name()
        if given["type"] == "enum":
            symbols = given.get("symbols")
            if not isinstance(symbols, list) or not symbols:
                raise CorruptFileError(
                    f"{self._uri}: the schema gives field {path!r} no symbols; replace the file"
                )
            return {"type": "enum", "name": name, "symbols": symbols}, pa.string(), False
        size = given.get("size")
        if not isinstance(size, int) or not 0 < size < 1 << 24 or given.get("logicalType") == "decimal":
            raise self._refused(path, f"has a fixed size of {size!r}")
        return {"type": "fixed", "name": name, "size": size}, pa.binary(size), False

    def _again(self, name: str, path: str) -> tuple[Any, pa.DataType, bool]:
        """A type that stood in the schema before; a record in itself is refused there."""
        if name in self._open:
            raise self._refused(path, f"is a record {name!r} within itself")
        given, space = self._named[name]
        return self._described(given, space, path)

    def _new_name(self) -> str:
        """A name for a type where it is written out: each time that it stands in the schema another."""
        self._types += 1
        return f"type{self._types}"

    def _name(self, given: dict[str, Any], space: str) -> tuple[str, str]:
        """The full name of a type, and its namespace."""
        name = str(given.get("name", ""))
        if "." in name:
            return name, name.rpartition(".")[0]
        space = str(given.get("namespace") or space)
        return (f"{space}.{name}" if space else name), space

    def _refused(self, path: str, what: str) -> InputError:
        return InputError(
            f"{self._uri}: field {path!r} {what}, which is not read; write the file without it, or with one "
            "type: a number, a text, bytes, a record or an array, each of which may be null"
        )


def columns_of(fields: tuple[AvroField, ...], separator: str) -> pa.Schema:
    """The columns that records become.

    Parameters
    ----------
    fields
    separator
        What joins the names of a path.
    """
    return pa.schema(
        list(_flat(pa.schema([field.arrow() for field in fields]), "", separator, nullable=False))
    )


def _flat(fields: Any, path: str, separator: str, *, nullable: bool) -> Iterator[pa.Field]:
    for field in fields:
        name, may_miss = path + field.name, nullable or field.nullable
        if pa.types.is_struct(field.type):
            yield from _flat(field.type, name + separator, separator, nullable=may_miss)
        else:
            yield pa.field(name, _stored(field.type, separator), metadata=field.metadata)


def _stored(kind: pa.DataType, separator: str) -> pa.DataType:
    """What an array of records becomes; other types stay."""
    if not is_list(kind):
        return kind
    if not pa.types.is_struct(kind.value_type):
        return pa.list_(_stored(kind.value_type, separator))
    inner = pa.struct(list(_flat(kind.value_type, "", separator, nullable=False)))
    found = other_form(pa.list_(inner))
    assert found is not None
    return found


def pruned(fields: tuple[AvroField, ...], wanted: Collection[str], separator: str) -> tuple[AvroField, ...]:
    """The fields of the first level that some columns are made of."""
    return tuple(
        field
        for field in fields
        if any(column.name in wanted for column in _flat([field.arrow()], "", separator, nullable=False))
    )


def as_columns(records: list[Any], fields: tuple[AvroField, ...], separator: str) -> pa.RecordBatch:
    """Build the columns of decoded records.

    Raises
    ------
    pyarrow.ArrowException, ValueError, OverflowError
        A value is not what the schema says.
    """
    kind = pa.struct([field.arrow() for field in fields])
    rows = pa.array(records, kind)
    columns = dict(_flattened(rows, "", separator))
    return pa.RecordBatch.from_pydict(columns, schema=columns_of(fields, separator))


def _flattened(rows: pa.Array, path: str, separator: str) -> Iterator[tuple[str, pa.Array]]:
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        name = path + field.name
        if pa.types.is_struct(field.type):
            yield from _flattened(column, name + separator, separator)
        else:
            yield name, _as_stored(column, separator)


def _as_stored(column: pa.Array, separator: str) -> pa.Array:
    if not is_list(column.type):
        return column
    if not pa.types.is_struct(column.type.value_type):
        return column.cast(_stored(column.type, separator))
    if any(pa.types.is_nested(part.type) for part in column.type.value_type):
        parts = dict(_flattened(column.flatten(), "", separator))
        inner = pa.StructArray.from_arrays(list(parts.values()), names=list(parts))
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        offsets = pa.array([0, *lengths.cumsum().tolist()], pa.int32())
        column = pa.ListArray.from_arrays(
            offsets, inner, mask=column.is_null() if column.null_count else None
        )
    return in_other_form(column).cast(_stored(column.type, separator))
