"""Nested columns whose parts differ, beside plain Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hipslake.tables.nested_casts import nested_cast, renamed
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.properties

_NAMES = ("a", "b", "c", "d")
_WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64(), pa.string(): pa.string()}


@st.composite
def pairs(draw: Any, depth: int = 0) -> tuple[pa.DataType, pa.DataType]:
    """A type of rows, and one of a table that they go into."""
    kind = draw(st.sampled_from(["plain", "struct", "list", "map"] if depth < 3 else ["plain"]))
    if kind == "plain":
        narrow = draw(st.sampled_from(list(_WIDER)))
        wide = draw(st.sampled_from([narrow, _WIDER[narrow]]))
        return narrow, wide
    if kind == "struct":
        fields = {name: draw(pairs(depth + 1)) for name in draw(st.permutations(_NAMES))}
        given_names = draw(st.lists(st.sampled_from(_NAMES), unique=True, min_size=1))
        wanted = draw(st.lists(st.sampled_from(_NAMES), unique=True, min_size=1))
        return (
            pa.struct([pa.field(name, fields[name][0]) for name in given_names]),
            pa.struct([pa.field(name, fields[name][1]) for name in wanted]),
        )
    one, other = draw(pairs(depth + 1))
    if kind == "list":
        made = draw(st.sampled_from([pa.list_, pa.large_list]))
        return made(one), pa.list_(pa.field("element", other))
    return pa.map_(pa.string(), one), pa.map_(pa.string(), other)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, and None."""
    if pa.types.is_struct(kind):
        some: Any = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    elif pa.types.is_map(kind):
        some = st.lists(st.tuples(st.sampled_from("xyz"), values(kind.item_type)), max_size=3)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        some = st.lists(values(kind.value_type), max_size=3)
    elif pa.types.is_integer(kind):
        some = st.integers(-(1 << 31), (1 << 31) - 1)
    elif pa.types.is_floating(kind):
        some = st.floats(width=32, allow_nan=False)
    else:
        some = st.sampled_from(["", "é", "abc"])
    return st.one_of(st.none(), some)


def fitted(value: Any, kind: pa.DataType) -> Any:
    """A value as the other type has it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: fitted(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(key, fitted(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind):
        return [fitted(item, kind.value_type) for item in value]
    return value


@given(st.data())
def test_parts_go_by_their_names(data: Any) -> None:
    one, other = data.draw(pairs())
    rows = data.draw(st.lists(values(one), max_size=8))
    array = pa.array(rows, one)
    found = nested_cast(array, other)
    found.validate(full=True)
    assert found.type == other
    assert found.to_pylist() == [fitted(value, other) for value in rows]
    first = data.draw(st.integers(0, len(rows)))
    part = nested_cast(array[first:], other)
    part.validate(full=True)
    assert part.to_pylist() == [fitted(value, other) for value in rows[first:]]


def test_values_that_do_not_fit_are_told() -> None:
    rows = pa.array([{"a": 1 << 40, "b": 1}], pa.struct([("a", pa.int64()), ("b", pa.int32())]))
    with pytest.raises(ValueError, match="not in range"):
        nested_cast(rows, pa.struct([("a", pa.int32())]))


def test_parts_are_renamed_by_their_paths() -> None:
    point = pa.struct([("ra", pa.float64()), ("dec", pa.float64())])
    schema = pa.schema(
        {"p": point, "l": pa.list_(pa.field("element", point)), "m": pa.map_(pa.string(), point)}
    )
    paths = {"p.ra": "x", "l.element.dec": "y", "m.value.ra": "z", "l": "k"}
    found = renamed(schema, paths)
    assert found.names == ["p", "k", "m"]
    assert [field.name for field in found.field("p").type] == ["x", "dec"]
    assert [field.name for field in found.field("k").type.value_type] == ["ra", "y"]
    assert [field.name for field in found.field("m").type.item_type] == ["z", "dec"]
    assert renamed(schema, {}) is schema
