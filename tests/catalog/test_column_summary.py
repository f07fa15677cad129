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
from hipslake.catalog.column_summary import FREQUENT, ColumnSummary, summarize_column
from hypothesis import given
from hypothesis import strategies as st


def ends_of(found: ColumnSummary) -> tuple[Any, Any]:
    """The least and the greatest value, as Python has them."""
    return (None, None) if found.ends is None else tuple(found.ends.to_pylist())  # type: ignore[return-value]


NUMBERS = st.lists(st.one_of(st.none(), st.floats(width=64), st.floats(-1e6, 1e6)), max_size=60)
INTEGERS = st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 4)), max_size=60)


@given(NUMBERS, st.integers(1, 50))
def test_floats(values: list[float | None], bins: int) -> None:
    found = summarize_column(pa.chunked_array([values], pa.float64()), bins)
    known = [value for value in values if value is not None and not math.isnan(value)]
    finite = np.array([value for value in known if math.isfinite(value)])
    assert (found.rows, found.nulls) == (len(values), values.count(None))
    assert found.nans == len(values) - found.nulls - len(known)
    assert ends_of(found) == (min(known, default=None), max(known, default=None))
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
    assert (*ends_of(found), found.nans) == (min(known, default=None), max(known, default=None), 0)
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
    assert pd.Timestamp(ends_of(found)[0]).timestamp() == min(seconds)


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
    assert (*ends_of(found), found.frequent) == (least, most, frequent)
    assert (found.rows, found.nulls) == (len(column), column.null_count)


WHOLE = [
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "nowhere")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32(), pa.date64()),
]


@pytest.mark.parametrize("kind", WHOLE, ids=str)
@given(data=st.data())
def test_ends_of_times_and_durations_have_all_their_digits(kind: pa.DataType, data: st.DataObject) -> None:
    """Also beyond the years that Python has."""
    bits = kind.bit_width - 1
    numbers = st.lists(st.one_of(st.none(), st.integers(-(2**bits), 2**bits - 1), st.integers(0, 5)))
    values = data.draw(numbers)
    whole = pa.array(values, pa.int32() if bits == 31 else pa.int64())
    found = summarize_column(pa.chunked_array([whole.view(kind), whole.view(kind)]), 3)
    known = [value for value in values if value is not None]
    if not known:
        assert found.ends is None
        return
    assert found.ends is not None
    assert found.ends.type == kind
    assert found.ends.view(whole.type).to_pylist() == [min(known), max(known)]
    assert found.nulls == 2 * values.count(None)


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        (pa.array([1.5, -2.5, None, float("nan")], pa.float16()), (-2.5, 1.5)),
        (pa.array(["5.10", None, "-3.25"]).cast(pa.decimal32(5, 2)), (Decimal("-3.25"), Decimal("5.10"))),
        (pa.array(["5.10", None, "-3.25"]).cast(pa.decimal64(9, 2)), (Decimal("-3.25"), Decimal("5.10"))),
        (pa.array(["5.10", None, "-3.25"]).cast(pa.decimal256(50, 2)), (Decimal("-3.25"), Decimal("5.10"))),
        (pa.array([7, 5, None], pa.int64()).dictionary_encode(), (5, 7)),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_ends_of_types_that_arrow_does_not_compare_itself(column: pa.Array, ends: object) -> None:
    found = summarize_column(pa.chunked_array([column]), bins=3)
    assert ends_of(found) == ends
    assert found.ends is not None
    assert found.ends.type == (column.dictionary.type if pa.types.is_dictionary(column.type) else column.type)


def test_durations_are_numbers_of_their_unit() -> None:
    found = summarize_column(pa.chunked_array([pa.array([3, 1, None], pa.duration("us"))]), 2)
    assert found.edges is not None
    assert (found.edges[0], found.edges[-1]) == (1, 3)
    assert (found.mean, found.deviation) == (2, 1)
