"""Summaries of columns are those of numpy and pandas."""

from __future__ import annotations

import collections
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hipslake.catalog.column_summary import FREQUENT, summarize_column
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.lists(st.one_of(st.none(), st.floats(width=64), st.floats(-1e6, 1e6)), max_size=60)
INTEGERS = st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 4)), max_size=60)


@given(NUMBERS, st.integers(1, 50))
def test_floats(values: list[float | None], bins: int) -> None:
    found = summarize_column(pa.chunked_array([values], pa.float64()), bins)
    known = [value for value in values if value is not None and not math.isnan(value)]
    finite = np.array([value for value in known if math.isfinite(value)])
    assert (found.rows, found.nulls) == (len(values), values.count(None))
    assert found.nans == len(values) - found.nulls - len(known)
    assert (found.min, found.max) == (min(known, default=None), max(known, default=None))
    assert found.frequent is None
    if not len(finite):
        assert (found.edges, found.counts, found.mean) == (None, None, None)
        return
    assert found.counts is not None
    assert found.edges is not None
    assert found.counts.sum() == len(finite)
    assert (np.diff(found.edges) > 0).all()
    assert found.edges[0] == finite.min()
    assert found.edges[-1] >= finite.max()
    for low, high, count in zip(found.edges[:-1], found.edges[1:], found.counts, strict=True):
        last = high == found.edges[-1]
        assert ((finite >= low) & ((finite <= high) if last else (finite < high))).sum() == count
    if np.abs(finite).max() < 1e100:
        assert found.mean == pytest.approx(finite.mean(), nan_ok=True)
        assert found.deviation == pytest.approx(finite.std(), nan_ok=True)


@given(INTEGERS)
def test_integers(values: list[int | None]) -> None:
    found = summarize_column(pa.chunked_array([values], pa.int64()), 7)
    known = [value for value in values if value is not None]
    assert (found.min, found.max, found.nans) == (min(known, default=None), max(known, default=None), 0)
    counted = collections.Counter(known)
    assert found.frequent is not None
    assert sorted((n for _, n in found.frequent), reverse=True) == [n for _, n in found.frequent]
    assert all(counted[value] == rows for value, rows in found.frequent)
    assert len(found.frequent) == min(FREQUENT, len(counted))
    if known:
        assert found.counts is not None
        assert found.counts.sum() == len(known)


TIMES: list[tuple[pa.DataType, list[Any]]] = [
    (
        pa.timestamp("ns", "UTC"),
        [pd.Timestamp("2026-10-01", tz="UTC"), None, pd.Timestamp("2027-01-01", tz="UTC")],
    ),
    (pa.timestamp("ms"), [datetime(1960, 1, 1), datetime(2000, 1, 1)]),
    (pa.date32(), [date(2026, 1, 1), date(1960, 1, 1), None]),
    (pa.date64(), [date(2026, 1, 1), date(1960, 1, 1)]),
]


@pytest.mark.parametrize(("kind", "values"), TIMES)
def test_times_are_counted_in_seconds_since_1970(kind: pa.DataType, values: list[Any]) -> None:
    found = summarize_column(pa.chunked_array([values], kind), 2)
    seconds = [pd.Timestamp(value).timestamp() for value in values if value is not None]
    assert found.edges is not None
    assert (found.edges[0], found.edges[-1]) == (min(seconds), max(seconds))
    assert (found.mean, found.nulls) == (None, values.count(None))
    assert pd.Timestamp(found.min).timestamp() == min(seconds)


@pytest.mark.parametrize(
    ("column", "least", "most", "frequent"),
    [
        (pa.array(["b", "a", None, "b"]), "a", "b", [("b", 2), ("a", 1)]),
        (pa.array(["b", "a", None, "b"]).dictionary_encode(), "a", "b", [("b", 2), ("a", 1)]),
        (pa.array([True, None, True, False]), False, True, [(True, 2), (False, 1)]),
        (pa.array([Decimal("1.50"), Decimal("-2.25")]), Decimal("-2.25"), Decimal("1.50"), None),
        (pa.array([[1], None]), None, None, None),
        (pa.array([b"x"]), None, None, None),
        (pa.nulls(3), None, None, None),
        (pa.array([], pa.string()), None, None, []),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_other_types(column: pa.Array, least: Any, most: Any, frequent: Any) -> None:
    found = summarize_column(pa.chunked_array([column]), 3)
    assert (found.min, found.max, found.frequent) == (least, most, frequent)
    assert (found.rows, found.nulls) == (len(column), column.null_count)


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        (pa.array([1.5, 2.5, None], pa.float16()), (1.5, 2.5)),
        (pa.array([3, 1, None], pa.duration("us")), (1, 3)),
        (pa.array([1, 2**62], pa.timestamp("us")), (datetime(1970, 1, 1, 0, 0, 0, 1), None)),
        (pa.array([1, 10**7], pa.date32()), (date(1970, 1, 2), None)),
    ],
)
def test_values_that_arrow_or_python_cannot_compare_or_hold_fail_nothing(
    column: pa.Array, ends: object
) -> None:
    found = summarize_column(pa.chunked_array([column]), bins=3)
    assert (found.min, found.max) == ends
    assert found.nulls == column.null_count
