"""Nested rows in two forms: what plain Python makes of one is what the library makes of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hipslake.joins.nested_forms import are_two_forms, in_other_form, other_form, struct_of_lists
from hipslake.sources.conforming import conform
from hipslake.sources.widening import widen
from hypothesis import given
from hypothesis import strategies as st

ROW = pa.struct(
    [
        pa.field("t", pa.float64(), metadata={"unit": "d"}),
        ("band", pa.string()),
        ("codes", pa.list_(pa.int16())),
        ("at", pa.struct([("x", pa.int8())])),
    ]
)
structs = st.fixed_dictionaries(
    {
        "t": st.none() | st.floats(allow_nan=False),
        "band": st.none() | st.text(max_size=3),
        "codes": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3),
        "at": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-9, 9)}),
    }
)
series = st.lists(st.none() | st.lists(structs, max_size=4), max_size=8)
Rows = list[list[dict[str, Any]] | None]


def turned(rows: Rows) -> list[dict[str, list[Any]] | None]:
    """A list of values per name, in place of a list of rows."""
    return [
        None if each is None else {field.name: [row[field.name] for row in each] for field in ROW}
        for each in rows
    ]


@given(rows=series, start=st.integers(0, 8), wide=st.booleans())
def test_rows_are_turned_as_by_plain_python_and_back(rows: Rows, start: int, wide: bool) -> None:
    kind = pa.large_list(ROW) if wide else pa.list_(ROW)
    lists = pa.array(rows, kind).slice(start)
    found = in_other_form(lists)
    assert found.type == other_form(kind)
    found.validate(full=True)
    assert found.to_pylist() == turned(rows[start:])
    for part in (found, pa.array(turned(rows), found.type).slice(start)):
        back = in_other_form(part)
        back.validate(full=True)
        assert back.equals(lists)
        assert back.type.value_type.field("t").metadata == {b"unit": b"d"}


def test_a_null_row_hides_whatever_lies_below_it() -> None:
    below = pa.array([[1, 2], [3]])
    hidden = pa.StructArray.from_arrays(
        [below, pa.array([[4, 5], []])], ["a", "b"], mask=pa.array([False, True])
    )
    assert in_other_form(hidden).to_pylist() == [[{"a": 1, "b": 4}, {"a": 2, "b": 5}], None]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (pa.array([{"a": [1], "b": []}]), "not equally long"),
        (pa.array([{"a": [1], "b": [2]}, {"a": None, "b": []}]), "not equally long"),
        (
            pa.array(
                [{"a": None, "b": None}], pa.struct([("a", pa.list_(pa.int8())), ("b", pa.list_(pa.int8()))])
            ),
            "not eq",
        ),
        (pa.array([[{"a": 1}, None]]), "a null in place of a struct"),
    ],
)
def test_rows_that_the_other_form_cannot_tell_of_are_refused(rows: pa.Array, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        in_other_form(rows)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int8()),
        pa.struct([("a", pa.list_(pa.int8())), ("b", pa.int8())]),
        pa.struct([]),
        pa.list_(pa.struct([])),
        pa.map_(pa.string(), pa.int8()),
        pa.int8(),
        pa.list_(pa.struct([("a", pa.int8())]), 2),
    ],
)
def test_what_is_no_nested_rows_has_no_other_form(kind: pa.DataType) -> None:
    assert other_form(kind) is None
    assert not are_two_forms(kind, pa.list_(ROW))
    assert not are_two_forms(struct_of_lists(pa.schema(list(ROW))), kind)


def test_files_of_both_forms_take_the_form_of_the_first_and_the_wider_types() -> None:
    lists = pa.list_(pa.struct([("t", pa.float32()), ("n", pa.int32())]))
    struct = pa.struct([("t", pa.list_(pa.float64())), ("n", pa.list_(pa.int16()))])
    wide = pa.struct([("t", pa.float64()), ("n", pa.int32())])
    assert widen(lists, struct) == pa.list_(wide)
    assert widen(struct, lists) == struct_of_lists(pa.schema(list(wide)))
    assert widen(lists, pa.struct([("t", pa.list_(pa.float64()))])) is None
    assert widen(lists, pa.struct([("t", pa.list_(pa.string())), ("n", pa.list_(pa.int16()))])) is None
    given = pa.record_batch({"c": pa.array([{"t": [1.5], "n": [2]}, None], struct)})
    held = conform(given, pa.schema([("c", pa.list_(wide))]), "file")
    assert held["c"].to_pylist() == [[{"t": 1.5, "n": 2}], None]
