"""Conditions as text: the language of filters, and the old form of cubes that exist."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import ConditionError, ConditionTypeError
from hipslake.predicates.condition_text import check_conditions, parse_conditions
from hipslake.predicates.conditions import C, Condition, Conjunction
from hipslake.predicates.old_conditions import parse_old_conditions
from hypothesis import given
from hypothesis import strategies as st

SCHEMA = pa.schema(
    [
        ("ok", pa.bool_()),
        ("mag", pa.float64()),
        ("B-V", pa.float64()),
        ("HIP", pa.int64()),
        ("name", pa.string()),
        ("other", pa.string()),
        ("night", pa.date32()),
    ]
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    column, values = draw(
        st.sampled_from(
            [
                (C("mag"), NUMBERS),
                (C("B-V"), NUMBERS),
                (C("HIP"), st.integers(-(2**63), 2**63 - 1)),
                (C("name"), st.text()),
                (C("ok"), st.booleans()),
                (C("night"), st.dates()),
            ]
        )
    )
    value, other = draw(values), draw(values)
    return draw(
        st.sampled_from(
            [
                column == value,
                column != value,
                column < value,
                column >= value,
                column.isin([value, other]),
                column.in_interval(value, None),
                column.in_interval(value, other),
                column.is_null(),
                column.not_null(),
            ]
        )
    )


@given(st.lists(conditions(), max_size=4))
def test_what_conditions_print_as_is_read_again(some: list[Condition]) -> None:
    whole = Conjunction(tuple(some))
    assert str(parse_conditions(str(whole), SCHEMA)) == str(whole)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("mag < 9", "mag < 9"),
        ('ok and "B-V" > 0.5', 'ok and "B-V" > 0.5'),
        ("not ok", "not ok"),
        ("HIP in (1, 2) and name = 'x'", "HIP in (1, 2) and name = 'x'"),
        ("HIP not in (1, 2)", "HIP not in (1, 2)"),
        ("HIP = 1 or HIP = 3", "(HIP = 1 or HIP = 3)"),
        ("night >= '2026-11'", "night >= '2026-11'"),
        ("ok == True and mag between 1 and 2", "ok = true and mag >= 1 and mag <= 2"),
        ("", ""),
    ],
)
def test_the_language_is_that_of_filters(text: str, printed: str, recwarn: pytest.WarningsRecorder) -> None:
    assert str(parse_conditions(text, SCHEMA)) == printed
    assert len(recwarn) == 0


@pytest.mark.parametrize(
    ("text", "meant", "now"),
    [
        (
            '(C("ok") == True) & C("HIP").isin([1, 2])',
            (C("ok") == True) & C("HIP").isin([1, 2]),  # noqa: E712
            "ok = true and HIP in (1, 2)",
        ),
        ("9.0 <= mag < 12.0", (C("mag") >= 9.0) & (C("mag") < 12.0), "mag >= 9.0 and mag < 12.0"),
        ("HIP in [1]", Conjunction.of(C("HIP").isin([1])), "HIP in (1)"),
        ("1 == HIP and HIP in (3,)", (C("HIP") == 1) & C("HIP").isin([3]), "HIP = 1 and HIP in (3)"),
        ('C("B-V") > -0.5', Conjunction.of(C("B-V") > -0.5), '"B-V" > -0.5'),
        ("mag.in_interval(stop=5.0)", Conjunction.of(C("mag").in_interval(stop=5.0)), "mag < 5.0"),
        (
            'night == date("2026-11-21")',
            Conjunction.of(C("night") == datetime.date(2026, 11, 21)),
            "night = '2026-11-21'",
        ),
        ('name == "x"', Conjunction.of(C("name") == "x"), "name = 'x'"),
    ],
)
def test_the_old_form_is_read_and_said_to_be_old(
    text: str, meant: Conjunction, now: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.warns(DeprecationWarning, match="old form"):
        assert parse_conditions(text, SCHEMA) == meant
    assert any(f"write: {now}" in record.getMessage() for record in caplog.records)
    assert parse_old_conditions(text) == meant
    assert str(parse_conditions(now, SCHEMA)) == str(meant)


@pytest.mark.parametrize(
    "text",
    [
        'name == "other"',  # a column, or a text
        r"name == 'a\\b'",
    ],
)
def test_a_text_that_could_mean_two_things_is_refused(text: str) -> None:
    with pytest.raises(ConditionError, match="write one of these"):
        parse_conditions(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("ok = true or mag < 2", ConditionError, "on several columns"),
        ("(HIP == 1) | (mag == 2.0)", ConditionError, "one conjunction"),
        ("mag < name", ConditionError, "on several columns|one column each"),
        ("HIP == 1 & HIP == 2", ConditionError, "put each condition in parentheses"),
        ("__import__('os').system('true')", ConditionError, "is no condition"),
        ("HIP == open('x')", ConditionError, "is no value"),
        ("HIP is 1", ConditionError, "null or not null"),
        ("HIP in 1", ConditionError, "is no list of values"),
        ("C(1) == 2", ConditionError, "names no column"),
        ("HIP ==", ConditionError, "found the end"),
        ("HIP", ConditionTypeError, "no condition by itself"),
        ("HIP < 'x'", ConditionTypeError, "compare it with a number"),
        ("mag is nan", ConditionTypeError, "write 'is null' for 'is nan'"),
        ('night == date("yesterday")', ConditionError, "Invalid isoformat"),
        ("mag < 1 and " * 1000 + "mag < 1", ConditionError, "at most 10000"),
    ],
)
def test_anything_else_is_refused_with_the_part_that_is_wrong(
    text: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        parse_conditions(text, SCHEMA)


@pytest.mark.parametrize("text", ["mag < 9 and ok", "9.0 <= mag < 12.0", 'C("any") == 1', "", "x is null"])
def test_conditions_are_read_before_their_columns_are_known(text: str) -> None:
    check_conditions(text)


@pytest.mark.parametrize("text", ["a = 1 or b = 2", "os.system('x')", "a <", "x" * 10_001])
def test_what_can_be_no_condition_is_told_before_columns_are_known(text: str) -> None:
    with pytest.raises(ConditionError):
        check_conditions(text)


@given(st.text(max_size=30))
def test_any_text_is_conditions_or_an_error_of_ours(text: str) -> None:
    import warnings

    found: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = parse_conditions(text, SCHEMA)
        except ConditionError:
            return
    assert isinstance(found, Conjunction)


@pytest.mark.parametrize("sign", ["=", "!=", "<", "<=", ">", ">="])
def test_a_text_with_a_quote_can_be_asked_for_by_every_sign(sign: str) -> None:
    """Python would join `'it''s'` to another text; no condition of the old form has such."""
    text = f"name {sign} 'it''s'"
    assert str(parse_conditions(text, SCHEMA)) == text
