"""Conditions as text: what they print as is read again, and nothing else is."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hipslake.cube.condition_text import parse_conditions
from hipslake.cube.conditions import C, Conjunction
from hipslake.errors import ConditionError
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: name.isidentifier() and name.lower() not in {"null", "none", "true", "false", "c"}
)
VALUES = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.booleans()


@st.composite
def conditions(draw: st.DrawFn) -> Any:
    column, value = C(draw(NAMES)), draw(VALUES)
    return draw(
        st.sampled_from(
            [
                column == value,
                column != value,
                column < value,
                column >= value,
                column.isin([value, draw(VALUES)]),
                column.in_interval(value, None),
                column.in_interval(value, draw(VALUES)),
                column.is_null(),
                column.not_null(),
            ]
        )
    )


@given(st.lists(conditions(), max_size=4))
def test_what_conditions_print_as_is_read_again(some: list[Any]) -> None:
    import keyword

    if any(keyword.iskeyword(each.column) for each in some):
        return
    whole = Conjunction(tuple(some))
    assert str(parse_conditions(str(whole))) == str(whole)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('(C("ok") == True) & C("I1").isin([1, 2])', (C("ok") == True) & C("I1").isin([1, 2])),  # noqa: E712
        ("9.0 <= mag < 12.0", (C("mag") >= 9.0) & (C("mag") < 12.0)),
        ("1 == n and n2 in (3,)", (C("n") == 1) & C("n2").isin([3])),
        ("ok == true\n  and HIP is not null", (C("ok") == True) & C("HIP").not_null()),  # noqa: E712
        ('C("B-V") > -0.5', Conjunction.of(C("B-V") > -0.5)),
        ("x.in_interval(stop=5)", Conjunction.of(C("x").in_interval(stop=5))),
        ('night == date("2026-11-21")', Conjunction.of(C("night") == datetime.date(2026, 11, 21))),
        ("", Conjunction()),
    ],
)
def test_a_text_means_what_it_means_in_python(text: str, meant: Conjunction) -> None:
    assert parse_conditions(text) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a == 1 or b == 2", "one conjunction"),
        ("(a == 1) | (b == 2)", "one conjunction"),
        ("a == 1 & b == 2", "put each condition in parentheses"),
        ("a == b", "'b' is no value"),
        ("__import__('os').system('true')", "is no condition"),
        ("a == open('x')", "is no value"),
        ("a not in [1]", "is no condition"),
        ("a is 1", "null or not null"),
        ("a in 1", "is no list of values"),
        ("C(1) == 2", "names no column"),
        ("a ==", "cannot be read"),
        ("a == 1) | (b == 2", "one conjunction"),
        ("a", "is no condition"),
        ("not a", "is no condition"),
        ('n == date("yesterday")', "Invalid isoformat"),
    ],
)
def test_anything_else_is_refused_with_the_part_that_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ConditionError, match=said):
        parse_conditions(text)
