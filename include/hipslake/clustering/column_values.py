"""The values of columns to cluster by: also of fields of structs, named as `place.ra`, and of UUIDs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def path_of(fields: Iterable[pa.Field], name: str) -> list[str] | None:
    """The names that lead to a column, or to a field of a struct; None where there is none.

    A column whose name has a dot comes before the field of a struct.

    Examples
    --------
    >>> schema = pa.schema([("place", pa.struct([("ra", pa.float64())])), ("a.b", pa.int64())])
    >>> path_of(schema, "place.ra"), path_of(schema, "a.b"), path_of(schema, "place.dec")
    (['place', 'ra'], ['a.b'], None)
    """
    by_name = {field.name: field.type for field in fields}
    if name in by_name:
        return [name]
    for at, letter in enumerate(name):
        kind = by_name.get(name[:at]) if letter == "." else None
        if kind is not None and pa.types.is_struct(kind):
            rest = path_of([kind.field(place) for place in range(kind.num_fields)], name[at + 1 :])
            if rest is not None:
                return [name[:at], *rest]
    return None


def type_at(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of a column, or of a field of a struct; of a UUID that of its bytes; `KeyError`: no such."""
    path = path_of(schema, name)
    if path is None:
        raise KeyError(name)
    kind = schema.field(path[0]).type
    for part in path[1:]:
        kind = kind.field(part).type
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def columns_of(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table that hold what some names stand for, each once; names of nothing stay."""
    return tuple(dict.fromkeys((path_of(schema, name) or [name])[0] for name in names))


def values_at(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
    """The values of a column, or of a field of a struct: null where the struct is."""
    path = path_of(rows.schema, name)
    if path is None:
        raise KeyError(name)
    values = rows.column(path[0])
    if len(path) > 1:
        values = pc.struct_field(values, path[1:])
    if isinstance(values, pa.ChunkedArray):
        if isinstance(values.type, pa.BaseExtensionType):
            return pa.chunked_array([each.storage for each in values.chunks], values.type.storage_type)
        return values
    return values.storage if isinstance(values, pa.ExtensionArray) else values
