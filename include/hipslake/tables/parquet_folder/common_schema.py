"""The schema of all files of a folder: they may differ in what changes no value."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hipslake.errors import SchemaMismatchError
from hipslake.joins.nested_forms import is_list
from hipslake.sources.widening import is_bytes, is_text, without_views


def common_schema(schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns of some files, in the order of the first, with the metadata of that.

    They may stand in another order, hold nulls in some files only, and store texts in several ways. Views of
    texts and bytes become plain ones, which Arrow can gather.

    Parameters
    ----------
    schemas : mapping of str to pyarrow.Schema
        By the path of the file; at least one.

    Raises
    ------
    SchemaMismatchError
        A column is missing in a file, or of a type with other values.
    """
    (first, common), *others = schemas.items()
    for path, schema in others:
        if schema.equals(common, check_metadata=True):
            continue
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        fields = {field.name: field for field in schema}
        joined = {f.name: _joined(f, fields[f.name]) for f in common if f.name in fields}
        lacks = sorted(set(common.names) - set(fields))
        more = sorted(set(fields) - set(common.names))
        other = sorted(
            f"{field.name} is {fields[field.name].type}, not {field.type}"
            for field in common
            if field.name in joined and joined[field.name] is None
        )
        if lacks or more or other or twice:
            told = [f"it lacks {', '.join(lacks)}"] * bool(lacks) + [f"it has {', '.join(more)}"] * bool(more)
            told += [f"it has {', '.join(twice)} twice"] * bool(twice)
            raise SchemaMismatchError(
                f"{path} has other columns than {first}: {'; '.join([*told, *other])}; write them alike first"
            )
        common = pa.schema([joined[name] for name in common.names])
    plain = [field.with_type(without_views(field.type)) for field in common]
    return pa.schema(plain, schemas[first].metadata)


def _joined(one: pa.Field, other: pa.Field) -> pa.Field | None:
    """A field that holds the values of both; None if there is none."""
    if one.equals(other, check_metadata=True):
        return one
    kind = _kind(one.type, other.type)
    if kind is None:
        return None
    field = pa.field(one.name, kind, one.nullable or other.nullable)
    return field.with_metadata(one.metadata) if one.metadata == other.metadata else field


def _kind(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one == other:
        return one
    if pa.types.is_dictionary(one) or pa.types.is_dictionary(other):
        plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other)]
        return _kind(*plain)
    if is_text(one) and is_text(other):
        return pa.large_string()
    if is_bytes(one) and is_bytes(other):
        return pa.large_binary()
    if is_list(one) and is_list(other):
        value = _joined(one.value_field.with_name("element"), other.value_field.with_name("element"))
        return None if value is None else pa.large_list(value)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        mine, theirs = ([kind.field(at) for at in range(kind.num_fields)] for kind in (one, other))
        if [field.name for field in mine] != [field.name for field in theirs]:
            return None
        parts = [_joined(a, b) for a, b in zip(mine, theirs, strict=True)]
        whole = [part for part in parts if part is not None]
        return pa.struct(whole) if len(whole) == len(parts) else None
    if pa.types.is_map(one) and pa.types.is_map(other):
        key, item = _kind(one.key_type, other.key_type), _joined(one.item_field, other.item_field)
        return None if key is None or item is None else pa.map_(key, item)
    return None
