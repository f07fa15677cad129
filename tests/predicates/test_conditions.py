"""Conditions: what they mean, and what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake.errors import ConditionError, ConditionTypeError
from hipslake.predicates.conditions import C, Condition, Conjunction
from hipslake.predicates.pruning import pushed_down

DAY = datetime.date(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12)
ZULU = NOON.replace(tzinfo=datetime.UTC)
TABLE = pa.table(
    {
        "i": pa.array([1, 2, None], pa.int16()),
        "f": pa.array([1.0, float("nan"), None]),
        "s": ["a", "b", None],
        "b": [True, False, None],
        "d": [DAY, DAY + datetime.timedelta(1), None],
        "t": pa.array([NOON, NOON + datetime.timedelta(1), None], pa.timestamp("us")),
        "z": pa.array([ZULU, ZULU, None], pa.timestamp("us", "UTC")),
        "l": pa.array([[1], [], None], pa.list_(pa.int64())),
    }
)


def met(condition: Condition | Conjunction) -> list[int]:
    numbered = TABLE.append_column("n", pa.array([0, 1, 2]))
    return Conjunction.of(condition).meeting(numbered)["n"].to_pylist()


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (C("i") == 1, [0]),
        (C("i") == np.int64(1), [0]),
        (C("i") != 1, [1]),
        (C("i") < 2, [0]),
        (C("i") <= 2, [0, 1]),
        (C("i") > 1, [1]),
        (C("i") >= 1, [0, 1]),
        (C("i").isin([2, 7]), [1]),
        (C("i").isin([]), []),
        (C("i").isin({1, 2}), [0, 1]),
        (C("i").in_interval(1, 2), [0]),
        (C("i").in_interval(start=2), [1]),
        (C("i").in_interval(stop=2), [0]),
        (C("i").in_interval(), [0, 1, 2]),
        (C("i").is_null(), [2]),
        (C("i").not_null(), [0, 1]),
        (C("f") == 1.0, [0]),
        (C("f") != 2.0, [0]),  # NaN is null
        (C("f").is_null(), [1, 2]),
        (C("s") > "a", [1]),
        (C("s").isin(["a"]), [0]),
        (C("b") == True, [0]),  # noqa: E712
        (C("b") != True, [1]),  # noqa: E712
        (C("d") == DAY, [0]),
        (C("t") > NOON, [1]),
        (C("t") == np.datetime64("2020-01-01T12:00", "us"), [0]),
        (C("z") == ZULU, [0, 1]),
        (C("l").is_null(), [2]),
        ((C("i") > 0) & (C("s") == "b"), [1]),
        ((C("i") > 0) & (C("s") == "b") & (C("b") == True), []),  # noqa: E712
    ],
    ids=str,
)
def test_null_meets_no_comparison(condition: Condition | Conjunction, rows: list[int]) -> None:
    assert met(condition) == rows


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("i", 1.0, "is int16, but 1.0 is a float; write 1"),
        ("i", 1.5, "is int16, but 1.5 is a float"),
        ("i", True, "is int16, but True is a bool"),
        ("i", "1", "is int16, but '1' is a str"),
        ("i", 1 << 20, "is int16, which cannot hold 1048576"),
        ("f", 1, r"is double, but 1 is an int; write 1\.0"),
        ("s", 1, "is string, but 1 is an int"),
        ("b", 1, "is bool, but 1 is an int; write True"),
        ("d", NOON, "is date32.*, but .* is a datetime"),
        ("d", "2020-01-01", "is date32.*, but .* is a str"),
        ("t", DAY, "is timestamp.*, but .* is a date"),
        ("t", ZULU, "give a time without a zone"),
        ("z", NOON, "give a time with a zone"),
        ("l", 1, "cannot be compared; ask for null"),
    ],
)
def test_a_value_of_another_type_is_refused(column: str, value: Any, said: str) -> None:
    for condition in (C(column) == value, C(column).isin([value]), C(column).in_interval(value)):
        with pytest.raises(TypeError, match=said):
            Conjunction.of(condition).check(TABLE.schema)


@pytest.mark.parametrize(
    "null", [None, float("nan"), np.float64("nan"), np.datetime64("NaT"), pa.scalar(None)]
)
def test_nothing_is_compared_with_null(null: Any) -> None:
    for compared in (lambda: C("i") == null, lambda: C("i").isin([1, null])):
        with pytest.raises(
            ConditionError, match=r"column 'i' cannot be compared with .* use C\('i'\)\.is_null\(\)"
        ):
            compared()


def test_a_chain_is_refused_and_the_interval_named() -> None:
    with pytest.raises(TypeError, match=r"write a chain such as .* as C\('i'\)\.in_interval\(1, 5\)"):
        1 <= C("i") < 5  # noqa: B015
    with pytest.raises(ConditionTypeError, match="join conditions by &"):
        (C("i") == 1) and (C("s") == "a")
    with pytest.raises(ConditionTypeError, match="join conditions by &"):
        ((C("i") == 1) & (C("s") == "a")) and (C("i") == 2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: C("i") == C("s"),
        lambda: C("i") == (C("s") == "a"),
        lambda: C("i").isin("abc"),
        lambda: C("i").isin(7),
        lambda: (C("i") == 1) | (C("i") == 2),
        lambda: ((C("i") == 1) & (C("s") == "a")) | (C("i") == 2),
        lambda: ~(C("i") == 1),
        lambda: (C("i") == 1) & "s == 'a'",
        lambda: bool(C("i")),
        lambda: C(""),
        lambda: C(7),  # type: ignore[arg-type]
        lambda: Conjunction.of(C("i")),  # type: ignore[arg-type]
        lambda: Conjunction.of(["i == 1"]),  # type: ignore[list-item]
    ],
)
def test_what_is_no_condition_is_refused(wrong: Any) -> None:
    with pytest.raises(ConditionTypeError):
        wrong()


def test_an_interval_without_bounds_asks_for_nothing() -> None:
    conjunction = Conjunction.of(C("i").in_interval())
    assert conjunction.columns == frozenset()
    assert conjunction.meeting(TABLE) is TABLE


def test_conditions_are_told_as_they_were_written() -> None:
    told = str((C("i") >= 1) & C("s").isin(["a", "b"]) & C("f").in_interval(1.0) & C("b").not_null())
    assert told == "i >= 1 and s in ('a', 'b') and f >= 1.0 and b is not null"


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_is_found_whatever_its_sign_in_memory_and_in_files(zero: float, tmp_path: Path) -> None:
    rows = pa.table({"f": [zero, zero]})
    pq.write_table(rows, tmp_path / "zero.parquet")
    sought = Conjunction.of(C("f").isin([0.0, 2.5]))
    assert sought.meeting(rows).num_rows == 2
    skipping = pushed_down(sought.predicate, rows.schema, rows.schema, nan_is_null=True)
    assert ds.dataset(tmp_path / "zero.parquet").to_table(filter=skipping).num_rows == 2
