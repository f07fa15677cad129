"""The evaluation of rows, against loops over rows in plain Python."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hipslake.predicates.evaluation import passing, truth
from hipslake.predicates.filter_text import parse_filter
from hipslake.predicates.predicate_tree import And, Not, Or
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
NUMBER_KINDS = [*INTEGERS, pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal256(60, 5)]
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
EDGES = [0, 1, -1, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 10**30]
NUMBERS = st.one_of(
    st.sampled_from(EDGES).map(str),
    st.integers(-5, 5).map(str),
    st.decimals(-100, 100, places=2).map(lambda number: f"{number:f}"),
    st.sampled_from(["0.1", "-0.0", "0.5", "1e30", "-1e30", "1e-400", "-1e-400", "1e400", "1e5000", "3.0"]),
)
REALS = st.one_of(
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 0.1, 2.0**53, 2.0**63, 2.0**64, 5e-324]),
    st.floats(width=32),
    st.floats(),
)


def integers_of(kind: pa.DataType) -> st.SearchStrategy[int]:
    bits = kind.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if str(kind)[0] == "i" else (0, 2**bits - 1)
    near = [edge for edge in (low, high, *EDGES) if low <= edge <= high]
    return st.integers(low, high) | st.sampled_from(near) | st.integers(max(low, -3), 5)


@st.composite
def number_columns(draw: st.DrawFn) -> pa.Array:
    kind = draw(
        st.sampled_from([*INTEGERS, pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal256(60, 5)])
    )
    if pa.types.is_integer(kind):
        values: st.SearchStrategy[Any] = integers_of(kind)
    elif pa.types.is_floating(kind):
        values = REALS
    else:
        values = st.decimals(-(10**6), 10**6, places=2)
    listed = draw(st.lists(values | st.none(), min_size=1, max_size=8))
    if kind == pa.float32():
        return pa.array(listed, pa.float64()).cast(kind, safe=False)
    return pa.array(listed, kind)


def exact(value: Any) -> Any:
    """A number that Python compares exactly; infinities and NaN stay what they are."""
    if isinstance(value, float) and not math.isfinite(value):
        return value
    return Fraction(value)


def literal_for(kind: pa.DataType, text: str) -> Any:
    return exact(float(text)) if pa.types.is_floating(kind) else exact(Decimal(text))


def kept(table: pa.Table, text: str, **options: Any) -> list[int]:
    numbered = table.append_column("at", pa.array(range(table.num_rows)))
    found: list[int] = passing(parse_filter(text, table.schema), numbered, **options)["at"].to_pylist()
    return found


@given(column=number_columns(), sign=st.sampled_from(sorted(SIGNS)), text=NUMBERS, negated=st.booleans())
@settings(max_examples=examples(400))
def test_numbers_compare_by_their_exact_values(column: pa.Array, sign: str, text: str, negated: bool) -> None:
    literal = literal_for(column.type, text)
    expected = [
        at
        for at, value in enumerate(column.to_pylist())
        if value is not None and SIGNS[sign](exact(value), literal) is not negated
    ]
    table = pa.table({"x": column})
    assert kept(table, f"{'not ' * negated}x {sign} {text}") == expected
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)
    assert kept(table, f"{'not ' * negated}{text} {turned} x") == expected


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(20, 2)])
def test_numbers_of_any_length_are_compared(kind: pa.DataType) -> None:
    table = pa.table({"x": pa.array([1, None], kind)})
    for text in ("1e99999999999999999999", "9" * 4000, "1e10001"):
        assert kept(table, f"x < {text}") == [0]
        assert kept(table, f"x < -{text}") == []
        assert kept(table, f"x in ({text})") == []
    for text in ("1e-99999999999999999999", f"0.{'0' * 4000}1", "0e99999999999999999999"):
        assert kept(table, f"x > {text} and x > -{text}") == [0]


@given(column=number_columns(), texts=st.lists(NUMBERS, min_size=1, max_size=4), negated=st.booleans())
@settings(max_examples=examples(300))
def test_lists_hold_numbers_by_their_exact_values(column: pa.Array, texts: list[str], negated: bool) -> None:
    literals = [literal_for(column.type, text) for text in texts]
    expected = [
        at
        for at, value in enumerate(column.to_pylist())
        if value is not None and any(exact(value) == each for each in literals) is not negated
    ]
    assert kept(pa.table({"x": column}), f"x {'not ' * negated}in ({', '.join(texts)})") == expected


@given(left=number_columns(), right=number_columns(), sign=st.sampled_from(sorted(SIGNS)))
@settings(max_examples=examples(500))
def test_columns_compare_by_their_exact_values(left: pa.Array, right: pa.Array, sign: str) -> None:
    rows = min(len(left), len(right))
    table = pa.table({"a": left[:rows], "b": right[:rows]})
    expected = [
        at
        for at, row in enumerate(table.to_pylist())
        if None not in row.values() and SIGNS[sign](exact(row["a"]), exact(row["b"]))
    ]
    assert kept(table, f"a {sign} b") == expected


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.decimal256(60, 5)])
def test_decimals_beside_doubles_without_end_are_less_or_more(kind: pa.DataType) -> None:
    table = pa.table(
        {
            "a": pa.array([Decimal(1), Decimal(-1), None, Decimal(0)], kind),
            "b": [math.inf, -math.inf, 0.0, math.nan],
        }
    )
    assert (kept(table, "a < b"), kept(table, "a > b"), kept(table, "b > a")) == ([0], [1], [0])
    assert (kept(table, "a = b"), kept(table, "a != b")) == ([], [0, 1, 3])


def test_all_of_nothing_is_true_and_any_of_nothing_is_false() -> None:
    table = pa.table({"x": [1, None]})
    assert passing(And(()), table).equals(table)
    assert passing(Or(()), table).num_rows == 0
    assert passing(Not(Or(())), table).equals(table)


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TICKS = st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**10), 10**10) | st.sampled_from([0, 1, -1])


@given(
    units=st.tuples(st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS))),
    ticks=st.lists(st.tuples(TICKS, TICKS), min_size=1, max_size=6),
    sign=st.sampled_from(sorted(SIGNS)),
    zone=st.sampled_from([None, "UTC", "Europe/Berlin"]),
)
def test_times_of_all_units_compare_exactly(
    units: tuple[str, str], ticks: list[tuple[int, int]], sign: str, zone: str | None
) -> None:
    columns = [
        pa.array([pair[at] for pair in ticks], pa.int64()).cast(pa.timestamp(unit, zone))
        for at, unit in enumerate(units)
    ]
    seconds = [
        [Fraction(tick, UNITS[unit]) for tick, unit in zip(pair, units, strict=True)] for pair in ticks
    ]
    expected = [at for at, pair in enumerate(seconds) if SIGNS[sign](*pair)]
    assert kept(pa.table({"a": columns[0], "b": columns[1]}), f"a {sign} b") == expected


@given(
    unit=st.sampled_from(sorted(UNITS)),
    ticks=st.lists(TICKS, min_size=1, max_size=6),
    sign=st.sampled_from(sorted(SIGNS)),
    moment=st.datetimes(),
    nanos=st.integers(0, 999),
    zone=st.sampled_from([None, "UTC"]),
)
def test_times_compare_with_moments_exactly(
    unit: str, ticks: list[int], sign: str, moment: datetime.datetime, nanos: int, zone: str | None
) -> None:
    since = moment - datetime.datetime(1970, 1, 1)
    literal = since.days * 86_400 + since.seconds + Fraction(since.microseconds * 1000 + nanos, 10**9)
    column = pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, zone))
    expected = [at for at, tick in enumerate(ticks) if SIGNS[sign](Fraction(tick, UNITS[unit]), literal)]
    text = f"{moment:%H:%M:%S}.{moment.microsecond:06}{nanos:03}"
    assert kept(pa.table({"t": column}), f"t {sign} '{moment.date().isoformat()}T{text}'") == expected


@given(
    kind=st.sampled_from([pa.date32(), pa.date64()]),
    days=st.lists(st.dates() | st.none(), min_size=1, max_size=6),
    day=st.dates(),
    hour=st.integers(0, 23),
    sign=st.sampled_from(sorted(SIGNS)),
)
def test_a_date_is_its_midnight(
    kind: pa.DataType, days: list[datetime.date | None], day: datetime.date, hour: int, sign: str
) -> None:
    moment = datetime.datetime(day.year, day.month, day.day, hour)
    expected = [
        at
        for at, each in enumerate(days)
        if each is not None and SIGNS[sign](datetime.datetime(each.year, each.month, each.day), moment)
    ]
    table = pa.table({"d": pa.array(days, kind)})
    assert kept(table, f"d {sign} '{day.isoformat()} {hour:02}'") == expected
    stamps = pa.table({"d": table["d"], "t": pa.array([moment] * len(days), pa.timestamp("ms"))})
    assert kept(stamps, f"d {sign} t") == expected


TEXTS = st.text(st.sampled_from("abé\U0001f600\x00'"), max_size=3)
TEXT_KINDS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
]


@given(
    kind=st.sampled_from(TEXT_KINDS),
    values=st.lists(TEXTS | st.none(), min_size=1, max_size=6),
    text=TEXTS,
    sign=st.sampled_from(sorted(SIGNS)),
)
def test_texts_compare_by_their_bytes(
    kind: pa.DataType, values: list[str | None], text: str, sign: str
) -> None:
    stored = [each if each is None or "string" in str(kind) else each.encode() for each in values]
    table = pa.table({"s": pa.array(stored, kind)})
    written = "'" + text.replace("'", "''") + "'"
    expected = [
        at for at, each in enumerate(values) if each is not None and SIGNS[sign](each.encode(), text.encode())
    ]
    assert kept(table, f"s {sign} {written}") == expected
    assert kept(table, f"s in ('zz', {written})") == [at for at, each in enumerate(values) if each == text]


@given(st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=8), st.booleans())
def test_a_null_among_the_values_of_a_dictionary_is_null(values: list[str | None], with_null: bool) -> None:
    entries = ["b", "a", None] if with_null else ["b", "a"]
    indices = [entries.index(each) if each in entries else None for each in values]
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(entries))
    table = pa.table({"s": column})
    assert kept(table, "s = 'a'") == [at for at, each in enumerate(values) if each == "a"]
    assert kept(table, "not s = 'a'") == [at for at, each in enumerate(values) if each == "b"]
    assert kept(table, "s not in ('b', 'c')") == [at for at, each in enumerate(values) if each == "a"]
    assert kept(table, "s is null") == [at for at, each in enumerate(values) if each is None]
    assert kept(table, "s is not null and s <= 'b'") == [at for at, each in enumerate(values) if each]


def test_unknown_stays_unknown() -> None:
    rows = pa.table({"f": [True, False, None], "n": pa.array([1, None, None], pa.int64())})
    for text, expected in {
        "f": [True, False, None],
        "not f": [False, True, None],
        "f or n = 1": [True, None, None],
        "f and n = 1": [True, False, None],
        "not (f and n = 1)": [False, True, None],
        "n is null or f": [True, True, True],
        "f < true": [False, True, None],
        "n in (1)": [True, None, None],
        "n not in (1)": [False, None, None],
        "n < 1e30": [True, None, None],
        "n = 0.5": [False, None, None],
    }.items():
        assert truth(parse_filter(text, rows.schema), rows).to_pylist() == expected, text


def test_nan_of_null_is_false() -> None:
    rows = pa.table({"x": [1.0, math.nan, None]})
    assert truth(parse_filter("x is nan", rows.schema), rows).to_pylist() == [False, True, False]
    assert truth(parse_filter("x is not nan", rows.schema), rows).to_pylist() == [True, False, True]
