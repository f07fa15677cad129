"""Range ids: the order of values of any type, evenly cut."""

from __future__ import annotations

import bisect
import math
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.clustering.curves import Curve
from hipslake.clustering.range_ids import RangeBounds, check_clustering_columns
from hipslake.errors import InputError, SpecError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text()),
    "string view": (pa.string_view(), st.text()),
    "binary": (pa.binary(), st.binary()),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "duration": (pa.duration("us"), st.timedeltas(timedelta(-1000), timedelta(1000))),
    "decimal": (pa.decimal128(10, 3), st.decimals(-9999, 9999, places=3)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", "ü"])),
}


def key_of(value: Any) -> Any:
    """What Python orders as the values are: nulls first, NaN last, texts by their UTF-8 bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value)
    return (1, value.encode() if isinstance(value, str) else value)


def ranges_of(values: list, arrow: pa.DataType, num_ranges: int = 1000) -> RangeBounds:
    return RangeBounds.of_sample(pa.table({"x": pa.array(values, arrow)}), ["x"], num_ranges)


def ids_of(bounds: RangeBounds, values: list, arrow: pa.DataType) -> list[int]:
    return bounds.range_ids(pa.table({"x": pa.array(values, arrow)}))[:, 0].tolist()


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=examples(30))
@given(data=st.data(), num_ranges=st.integers(2, 20))
def test_ids_follow_the_order_of_values_of_every_type(
    kind: str, data: st.DataObject, num_ranges: int
) -> None:
    arrow, values = TYPES[kind]
    sampled = data.draw(st.lists(st.none() | values, max_size=40))
    everything = sampled + data.draw(st.lists(st.none() | values, max_size=40))
    bounds = ranges_of(sampled, arrow, num_ranges)
    ids = ids_of(bounds, everything, arrow)
    assert max(ids, default=0) < bounds.counts[0] <= num_ranges + 1
    in_order = sorted(zip(map(key_of, everything), ids, strict=True))
    for (one, first), (other, second) in pairwise(in_order):
        assert first == second if one == other else first <= second


@pytest.mark.parametrize("kind", ["int64", "float64", "string", "decimal"])
@settings(max_examples=examples(30))
@given(data=st.data())
def test_few_values_have_a_range_each(kind: str, data: st.DataObject) -> None:
    arrow, values = TYPES[kind]
    sampled = data.draw(st.lists(values, min_size=1, max_size=30))
    distinct = sorted({key_of(value) for value in sampled})
    expected = [bisect.bisect_left(distinct, key_of(value)) for value in sampled]
    assert ids_of(ranges_of(sampled, arrow), sampled, arrow) == expected


def test_ranges_hold_about_equal_numbers_of_rows_whatever_the_distribution() -> None:
    values = np.random.default_rng(0).lognormal(0, 3, 100_000)
    bounds = RangeBounds.of_sample(pa.table({"x": values[:40_000]}), ["x"], 100)
    rows = np.bincount(bounds.range_ids(pa.table({"x": values}))[:, 0].astype(int))
    assert len(rows) == 100
    assert rows.min() > 800
    assert rows.max() < 1200


def test_nulls_are_a_range_of_their_own_below_all_others() -> None:
    bounds = ranges_of([3, None, 1, 2], pa.int64())
    assert ids_of(bounds, [None, 1, 2, 3], pa.int64()) == [0, 1, 2, 3]
    assert ids_of(ranges_of([3, 1, 2], pa.int64()), [None, 1, 2, 3], pa.int64()) == [0, 0, 1, 2]


def test_nan_is_above_all_numbers_and_both_zeros_are_one() -> None:
    values = [math.nan, math.inf, 0.0, -0.0, -math.inf]
    assert ids_of(ranges_of(values, pa.float64()), values, pa.float64()) == [3, 2, 1, 1, 0]


def test_stretched_ids_of_few_values_use_the_highest_bits() -> None:
    bounds = ranges_of(list("abcd"), pa.string())
    assert bounds.bits == 10
    assert bounds.stretched(bounds.sample_ids)[:, 0].tolist() == [0, 256, 512, 768]


@pytest.mark.parametrize("curve", Curve)
@pytest.mark.parametrize("columns", [1, 2, 7, 63])
def test_keys_of_many_columns_are_signed_64_bit_numbers(curve: Curve, columns: int) -> None:
    random = np.random.default_rng(0)
    rows = pa.table({f"c{n}": random.random(300) for n in range(columns)})
    keys = RangeBounds.of_sample(rows, rows.column_names).keys(rows, curve)
    assert int(keys.max()) < 2**63
    assert len(np.unique(keys)) > 250


def test_a_sample_without_rows_is_one_range() -> None:
    bounds = ranges_of([], pa.int64())
    assert ids_of(bounds, [1, None, 7], pa.int64()) == [0, 0, 0]


def test_ranges_of_a_sample_without_its_ids_are_the_same_ranges() -> None:
    bounds = ranges_of(list(range(10)), pa.int64())
    light = bounds.without_sample()
    assert len(light.sample_ids) == 0
    assert ids_of(light, [3, 12], pa.int64()) == ids_of(bounds, [3, 12], pa.int64())


SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int8())])),
    ]
)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ([], SpecError, "no columns to cluster by: name at least one"),
        (["a", "z", "c"], SpecError, "no column c, z to cluster by; there are a, b, tags, place"),
        (["a", "b", "a"], SpecError, "column a is named twice"),
        (["tags"], InputError, r"column tags is list<item: string>, whose values have no order"),
        (["a", "place"], InputError, "column place is struct<x: int8>, whose values have no order"),
    ],
)
def test_columns_that_cannot_be_clustered_by_are_told(
    names: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        check_clustering_columns(SCHEMA, names)


def test_one_range_and_too_many_columns_are_refused() -> None:
    with pytest.raises(SpecError, match="num_ranges is 1"):
        ranges_of([1, 2], pa.int64(), 1)
    many = pa.table({f"c{n}": [1] for n in range(64)})
    with pytest.raises(SpecError, match="64 columns to cluster by: a key has room for 63"):
        RangeBounds.of_sample(many, many.column_names)
