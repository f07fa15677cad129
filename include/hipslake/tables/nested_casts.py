"""Arrow columns whose nested types differ in their parts: cast by the names of parts, and renamed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa


def nested_cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column; parts of structs are found by their names, and null where the column has none.

    Parameters
    ----------
    column : pyarrow.Array, of n values
    kind : pyarrow.DataType
        A part that the column has and the type has not is left out.

    Returns
    -------
    pyarrow.Array, of n values

    Raises
    ------
    ValueError, pyarrow.ArrowNotImplementedError
        A value does not fit.
    """
    if column.type == kind or _same_parts(column.type, kind):
        return column if column.type == kind else column.cast(kind, safe=True)
    if pa.types.is_dictionary(column.type):
        return nested_cast(column.dictionary_decode(), kind)
    if pa.types.is_struct(kind):
        parts = []
        for field in kind:
            at = column.type.get_field_index(field.name)
            if at < 0:
                parts.append(null_column(field.type, len(column)))
            else:
                parts.append(nested_cast(column.field(at), field.type))
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_nulls(column))
    if pa.types.is_map(kind):
        first, last = _ends(column.offsets)
        return pa.MapArray.from_arrays(
            _starts(column, pa.int32()),
            nested_cast(column.keys.slice(first, last - first), kind.key_type),
            nested_cast(column.items.slice(first, last - first), kind.item_type),
            kind,
            mask=_nulls(column),
        )
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_field))
    if pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
        column = column.cast(pa.list_(column.type.value_field))
    first, last = _ends(column.offsets)
    values = nested_cast(column.values.slice(first, last - first), kind.value_type)
    large = pa.types.is_large_list(kind)
    made = pa.LargeListArray if large else pa.ListArray
    offsets = _starts(column, pa.int64() if large else pa.int32())
    return made.from_arrays(offsets, values, type=kind, mask=_nulls(column))


def renamed(schema: pa.Schema, renames: Mapping[str, str]) -> pa.Schema:
    """A schema some of whose columns, or parts of nested ones, have other names.

    Parameters
    ----------
    schema : pyarrow.Schema
    renames : mapping of str to str
        From names such as `a`, or `a.b` of a part, to the last part of new ones. Items of lists are called
        `element`, values of maps `value`.

    Examples
    --------
    >>> kind = pa.struct([("ra", pa.float64())])
    >>> renamed(pa.schema([("p", kind)]), {"p": "q", "p.ra": "lon"}).field("q").type.field(0).name
    'lon'
    """
    if not renames:
        return schema
    return pa.schema([_renamed_field(field, field.name, renames) for field in schema], schema.metadata)


def _renamed_field(field: pa.Field, path: str, renames: Mapping[str, str]) -> pa.Field:
    return field.with_type(_renamed_parts(field.type, path, renames)).with_name(renames.get(path, field.name))


def _renamed_parts(kind: pa.DataType, path: str, renames: Mapping[str, str]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_renamed_field(field, f"{path}.{field.name}", renames) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = pa.list_ if pa.types.is_list(kind) else pa.large_list
        item = kind.value_field
        return made(item.with_type(_renamed_parts(item.type, f"{path}.element", renames)))
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_field, item.with_type(_renamed_parts(item.type, f"{path}.value", renames)))
    return kind


def _same_parts(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether Arrow casts one into the other: the names of parts are the same, in this order."""
    if pa.types.is_dictionary(one):
        return _same_parts(one.value_type, other)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        names = [field.name for field in one], [field.name for field in other]
        return names[0] == names[1] and all(
            _same_parts(a.type, b.type) for a, b in zip(one, other, strict=True)
        )
    if pa.types.is_map(one) and pa.types.is_map(other):
        return _same_parts(one.key_type, other.key_type) and _same_parts(one.item_type, other.item_type)
    if pa.types.is_nested(one) and pa.types.is_nested(other):
        if pa.types.is_struct(one) or pa.types.is_struct(other):
            return True  # which no cast does, and Arrow says so
        return _same_parts(one.value_type, other.value_type)
    return True


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _ends(offsets: pa.Array) -> tuple[int, int]:
    return offsets[0].as_py(), offsets[-1].as_py()


def _starts(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The offsets of lists, from 0 on."""
    offsets = column.offsets.to_numpy()
    return pa.array(offsets - offsets[0], kind)


def null_column(kind: pa.DataType, rows: int) -> pa.Array:
    """A column without values.

    Below a null struct, parts that are required have a value of no meaning: Arrow looks for nulls there
    without looking at the struct.
    """
    if not pa.types.is_nested(kind):
        return pa.nulls(rows, kind)
    return pa.array([None], kind).take(pa.array(np.zeros(rows, np.int64)))
