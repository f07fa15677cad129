"""Expressions: their values are held against numpy's, and what is none is an error with its place."""

from __future__ import annotations

import datetime
import math
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from astropy.time import Time
from hipslake.errors import ExpressionError
from hipslake.predicates.domains import UnfitError
from hipslake.predicates.evaluation import truth
from hipslake.predicates.expression_functions import FUNCTIONS
from hipslake.predicates.expression_text import parse_expression
from hipslake.predicates.filter_text import read_filter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.predicates.random_expressions import BOUND, ExpectedError, Grammar, columns

BATCH = pa.record_batch(
    {
        "flux": pa.array([100.0, 0.0, -1.0, None, float("nan"), float("inf")]),
        "n": pa.array([1, 2, 3, None, -5, 2**63 - 1], pa.int64()),
        "ok": [True, False, None, True, False, True],
        "name": ["a", "b", None, "5.5", "x", ""],
        "B-V": pa.array([0.5, 1, 1.5, 2, 2.5, None], pa.float32()),
        "u": pa.array([0, 1, 2, 3, 4, 2**64 - 1], pa.uint64()),
        "seen": pa.array([datetime.datetime(2026, 11, 20, 12), *[None] * 5], pa.timestamp("us")),
    }
)


def value(text: str, batch: pa.RecordBatch = BATCH) -> list[object]:
    expression = parse_expression(text)
    found = expression.values(batch)
    assert found.type == expression.kind(batch.schema)
    assert len(found) == batch.num_rows
    return found.to_pylist()


def alike(found: pa.Array, expected: np.ndarray, missing: np.ndarray) -> None:
    assert found.is_null().to_pylist() == missing.tolist()
    mine = found.drop_null()
    if pa.types.is_floating(found.type):
        np.testing.assert_array_equal(mine.to_numpy(), expected[~missing].astype(float))
    else:
        assert mine.to_pylist() == expected[~missing].tolist()


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 60))]
)
def test_random_expressions_are_worth_what_numpy_makes_of_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, pairs = columns(rng)
    grammar, met = Grammar(rng), {"values": 0, "errors": 0}
    for number in range(120):
        case = grammar.of(("int", "float", "bool")[number % 3], 1 + number % 4)
        expression = parse_expression(case.text)
        kinds = {"int": {pa.int64()}, "float": {pa.float64(), pa.float32()}, "bool": {pa.bool_()}}
        assert expression.kind(batch.schema) in kinds[case.kind], case.text
        try:
            expected = case.value(pairs)
        except ExpectedError:
            met["errors"] += 1
            with pytest.raises(UnfitError, match="line 1, column"):
                expression.values(batch)
            continue
        met["values"] += 1
        alike(expression.values(batch), *expected)
    assert met["values"] > 60
    assert met["errors"] > 3


def test_operators_bind_as_those_of_python() -> None:
    rng = np.random.default_rng(11)
    batch = pa.record_batch({"x": [3.5], "y": [2.0], "z": [7.0]})
    names = {"x": 3.5, "y": 2.0, "z": 7.0}
    for _ in range(400):
        words = [str(rng.choice(["x", "y", "z", "1.5", "4.0", "-2.0", "- x"]))]
        for _ in range(rng.integers(1, 6)):
            words.append(str(rng.choice(["+", "-", "*", "/", "//", "%", "**"])))
            words.append(str(rng.choice(["x", "y", "z", "2.0", "-y"])))
        text = " ".join(words)
        try:
            expected = eval(text, {"__builtins__": {}}, names)  # Python itself is the oracle
        except (ZeroDivisionError, OverflowError):
            continue
        if isinstance(expected, complex):
            continue
        [found] = value(text, batch)
        assert isinstance(found, float)
        assert math.isclose(found, expected, rel_tol=1e-12), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("25 - 2.5 * log10(flux)", [20.0, math.inf, math.nan, None, math.nan, -math.inf]),
        ("where(flux > 0, flux, null)", [100.0, None, None, None, None, math.inf]),
        ("where(ok, 1, 2)", [1, 2, None, 1, 2, 1]),
        ("1 / n", [1.0, 0.5, 1 / 3, None, -0.2, 1 / (2**63 - 1)]),
        ("where(n > 100, null, n + 1)", [2, 3, 4, None, -4, None]),
        ("where(n != 2, 1 // (n - 2), null)", [-1, None, 1, None, -1, 0]),
        ("n + 1", None),
        ("cast(n, float64) + 1", None),
        ('"B-V" * 2', [1.0, 2.0, 3.0, 4.0, 5.0, None]),
        ('"B-V"', [0.5, 1.0, 1.5, 2.0, 2.5, None]),
        ("flux is nan or n is null", [False, False, False, True, True, False]),
        ("name = 'a' or ok", [True, False, None, True, False, True]),
        ("coalesce(name, 'none')", ["a", "b", "none", "5.5", "x", ""]),
        ("pi()", [math.pi] * 6),
        ("null", [None] * 6),
        ("'text'", ["text"] * 6),
        ("true", [True] * 6),
        ("u < n", [True, True, True, None, False, False]),
        ("bit_and(n, 2) != 0", [False, True, True, None, True, True]),
        ("bit_and(null, n)", [None] * 6),
        ("SQRT(cast('16', float64))", [4.0] * 6),
        ("mjd_of_time(seen)", [61364.5, *[None] * 5]),
    ],
)
def test_values(text: str, expected: list[object] | None) -> None:
    if expected is None:
        with pytest.raises(UnfitError, match=r"64 bits|not in range|Integer value"):
            value(text)
        return
    np.testing.assert_equal(value(text), expected)


def test_times_of_modified_julian_dates_are_those_of_astropy() -> None:
    rng = np.random.default_rng(2)
    days = np.concatenate([rng.uniform(41_000, 61_000, 500), [40_587.0, 51_544.5]])
    found = parse_expression("time_of_mjd(mjd)").values(pa.record_batch({"mjd": days}))
    expected = Time(days, format="mjd", scale="utc").datetime64
    off = np.abs((found.to_numpy(zero_copy_only=False) - expected).astype("timedelta64[ns]").astype(int))
    assert off.max() <= 1000  # a microsecond
    back = parse_expression("mjd_of_time(t)").values(pa.record_batch({"t": found})).to_numpy()
    assert np.abs(back - days).max() * 86_400 < 2e-6
    lost = pa.record_batch({"mjd": [None, math.nan]})
    assert parse_expression("time_of_mjd(mjd)").values(lost).to_pylist() == [None, None]
    with pytest.raises(UnfitError, match="no Modified Julian Date"):
        parse_expression("time_of_mjd(mjd)").values(pa.record_batch({"mjd": [1e300]}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2 +", "expected a column, a number, a 'text' or a function, found the end"),
        ("log10(flux", r"expected '\)', found the end"),
        ("log11(flux)", r"no function 'log11', at line 1, column 1; did you mean log10"),
        ("flux +\n * 2", r"found '\*' at line 2, column 2"),
        ("flux $ 2", r"'\$' at line 1, column 6 has no meaning here"),
        ("where(flux > 0, 1)", "where takes 3 values, and has 2 at line 1, column 1"),
        ("sqrt()", "sqrt takes 1 values, and has 0"),
        ("cast(flux, float)", "line 1, column 12: 'float' is no Arrow type; write bool"),
        ("flux = null", "write 'is null'"),
        ("nan < flux", "write 'is nan'"),
        ("1 < 2", "expected a column on one side of the comparison at line 1, column 1"),
        ("flux between 1", "expected 'and', found the end"),
        ("n in (flux)", "expected a number or a 'text', found 'flux' at line 1, column 7"),
        ("1 and ok", "expected a condition, found a constant at line 1, column 1"),
        ("1e999", "expected a number that a double holds"),
        ("flux flux", "expected an operator or the end, found 'flux' at line 1, column 6"),
        ("", "found the end"),
        ("(" * 60 + "n" + ")" * 60, "nested more than 50 deep"),
        ("- " * 60 + "n", "nested more than 50 deep"),
        ("n ** " * 60 + "n", "nested more than 50 deep"),
        ("n + " * 5000 + "n", "at most 10000 are read"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        parse_expression(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flx * 2", "at line 1, column 1: there is no column 'flx'; did you mean 'flux'"),
        ("1 +\n  name", "at line 2, column 3: a number is needed, and this is of type string"),
        ("where(flux, 1, 2)", "at line 1, column 7: a condition is needed, and this is of type double"),
        ("where(ok, 1, 'a')", "int64 and string have no type in common"),
        ("bit_and(flux, 1)", "an integer is needed, and this is of type double"),
        ("flux < 'a'", "compare it with a number, not with 'a'"),
        ("(flux + 1) < 'a'", r"column '\(flux \+ 1\)' is of type double"),
        ("mjd_of_time(flux)", "a time or date is needed"),
        ("cast(seen, bool)", r"values of type timestamp\[us\] cannot be cast to bool"),
        ("9223372036854775808 + n", "write 9223372036854775808.0"),
    ],
)
def test_what_does_not_fit_the_columns_is_said_before_a_row_is_read(text: str, said: str) -> None:
    with pytest.raises(UnfitError, match=said):
        parse_expression(text).kind(BATCH.schema)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ok is not null and n * n > 0", "line 1, column 22: a result is beyond 64 bits; cast"),
        ("n % (n - 2)", "line 1, column 3: an integer is divided by zero"),
        ("u + 0", "line 1, column 1: Integer value 18446744073709551615"),
        ("where(ok, u, n)", "line 1, column 1: Integer value 18446744073709551615"),
        ("cast(flux, int16)", "line 1, column 1"),
        ("cast(name, float64)", "line 1, column 1: Failed to parse string"),
        ("-(-9223372036854775807 - 1 + 0 * n)", "beyond 64 bits"),
    ],
)
def test_a_value_that_no_number_holds_is_an_error_and_never_another_number(text: str, said: str) -> None:
    with pytest.raises(UnfitError, match=said):
        value(text)


def test_conditions_of_filters_mean_the_same_in_expressions() -> None:
    for text in (
        "flux < 12 and name is not null",
        "not (n in (1, 2, -5)) or flux between -1 and 1",
        "12 > flux",
        '"B-V" >= n',
        "ok and not flux is nan",
        "seen > '2026-11-01'",
    ):
        expected = truth(read_filter(text), BATCH).to_pylist()
        assert value(text) == expected, text


HOSTILE = [
    "__import__('os').system('touch {place}')",
    "open('{place}', 'w')",
    "eval('1')",
    "exec('1')",
    "n.__class__",
    "n[0]",
    "n; n",
    "lambda: n",
    "[n for n in n]",
    "{{ n }}",
    "${{HOME}}",
    "$(touch {place})",
    "`touch {place}`",
    "import('os')",
    "getattr(n, 'x')",
    "read('/etc/passwd')",
    "env('HOME')",
    "n := 1",
    "n = n = n",
    "f'{{n}}'",
    "# n",
    "n -- n #",
    "*n",
    "n\\x00",
    "np.log10(n)",
    "pc.field('n')",
    "cast(n, '__import__(os)')",
    "\u202en",
    "0x1F",
    "1_000",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_the_language_imports_calls_or_reads(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "made"

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("something was called")

    for owner, name in ((os, "system"), (subprocess, "Popen"), (os, "popen")):
        monkeypatch.setattr(owner, name, refused)
    with pytest.raises((ExpressionError, UnfitError)):
        parse_expression(text.format(place=place)).values(BATCH)
    assert not place.exists()


def test_the_functions_are_those_that_are_listed() -> None:
    assert set(FUNCTIONS) == {
        *("sqrt", "cbrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh"),
        *("cosh", "tanh", "asinh", "degrees", "radians", "floor", "ceil", "trunc", "round", "sign", "abs"),
        *("atan2", "hypot", "least", "greatest", "bit_and", "coalesce", "time_of_mjd", "mjd_of_time"),
    }


@settings(max_examples=200, deadline=None)
@given(st.text("ab1.+-*/%()<>=,'\" \nnoteis", max_size=40))
def test_any_text_is_an_expression_or_an_error_of_ours(text: str) -> None:
    with suppress(ExpressionError):
        parse_expression(text)


def test_long_texts_are_read_and_computed_in_little_time() -> None:
    began = time.monotonic()
    long = parse_expression(" + ".join(["n"] * 2400))
    assert long.values(pa.record_batch({"n": [1, 2]})).to_pylist() == [2400, 4800]
    deep = "(" * 48 + "n" + " + 1)" * 48
    assert parse_expression(deep).values(pa.record_batch({"n": [1]})).to_pylist() == [49]
    wide = " or ".join(["n > 5"] * 1000)
    assert parse_expression(wide).values(pa.record_batch({"n": [1, 9]})).to_pylist() == [False, True]
    assert time.monotonic() - began < 20


def test_batches_without_rows_have_values_of_the_type() -> None:
    none = BATCH.slice(0, 0)
    for text in ("flux + 1", "n > 1", "where(ok, n, 1)", "cast(n, string)", "pi()", "time_of_mjd(flux)"):
        assert value(text, none) == []


def test_bound_is_that_of_64_bits() -> None:
    assert np.iinfo(np.int64).max == BOUND - 1
