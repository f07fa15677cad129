"""Filters as lists: values of Python that are beyond every column's, or no values at all."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.predicates.binding import check_predicate
from hipslake.predicates.domains import UnfitError
from hipslake.predicates.evaluation import passing
from hipslake.predicates.filter_lists import predicate_of_lists

ROWS = pa.table(
    {
        "i": pa.array([-5, 7, None], pa.int64()),
        "f": pa.array([-1.5, 3.0, None], pa.float64()),
        "d": pa.array([Decimal("-1.50"), Decimal("3.00"), None], pa.decimal128(10, 2)),
    }
)


BEYOND = {
    "int": 10**400,
    "int of more digits than Python writes": 10**5000,
    "float": float("inf"),
    "decimal": Decimal("1e5000"),
    "infinite decimal": Decimal("Infinity"),
}


@pytest.mark.parametrize("column", ROWS.column_names)
@pytest.mark.parametrize("kind", BEYOND)
def test_what_is_beyond_all_numbers_is_compared(column: str, kind: str) -> None:
    beyond: Any = BEYOND[kind]
    for operator, value, expected in (
        ("<", beyond, 2),
        (">", -beyond, 2),
        (">=", beyond, 0),
        ("=", beyond, 0),
        ("!=", -beyond, 2),
        ("in", [beyond, 7, 3], 1),
        ("not in", [beyond, 7, 3], 1),
    ):
        predicate = predicate_of_lists([(column, operator, value)])
        check_predicate(predicate, ROWS.schema)
        assert passing(predicate, ROWS).num_rows == expected, operator


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([[]], "is no list of"),
        ([[("i", "<", 1)], "i < 1"], "is no list of"),
        ([("i", "<")], r"is not \(column, operator, value\)"),
        ([(1, "<", "i")], r"is not \(column, operator, value\)"),
        ([[["i", "<", 1], "i"]], r"'i' is not \(column, operator, value\)"),
        ([("i", "in", "157")], "give a list of values"),
        ([("i", "in", 7)], "give a list of values"),
        ([("i", "~", 7)], "'~' compares nothing; use one of"),
        ([("i", "<", {7})], "a set, which is no value"),
    ],
)
def test_lists_of_another_shape_are_refused(given: Any, told: str) -> None:
    with pytest.raises(UnfitError, match=told):
        predicate_of_lists(given)


def test_values_of_each_type_are_compared() -> None:
    rows = pa.table(
        {
            "t": pa.array([dt.datetime(2026, 1, 1), None], pa.timestamp("us")),
            "day": pa.array([dt.date(2026, 1, 1), None]),
            "b": pa.array([b"x", None]),
            "ok": pa.array([True, None]),
        }
    )
    values = {"t": np.datetime64("2026-01-01T00:00:00"), "day": dt.date(2026, 1, 1), "b": b"x", "ok": True}
    for name, value in values.items():
        predicate = predicate_of_lists([[(name, "=", value)]])
        check_predicate(predicate, rows.schema)
        assert passing(predicate, rows).num_rows == 1, name


@pytest.mark.parametrize("nothing", [Decimal("NaN"), Decimal("sNaN"), float("nan"), None])
def test_what_nothing_equals_is_refused(nothing: Any) -> None:
    for operator, value in (("<", nothing), ("=", nothing), ("in", [nothing]), ("not in", [1, nothing])):
        with pytest.raises(UnfitError, match="which nothing equals"):
            predicate_of_lists([("d", operator, value)])
