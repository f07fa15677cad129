"""Merging: whatever the cut into batches, the rows come as one stable sort of them all would put them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog import merging
from hipslake.catalog.merging import SortedBatches, keys_of, within
from hipslake.sphere.curve import curve_order
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.lists(st.integers(0, 5) | st.integers(0, 12 * 4**29 - 1), max_size=60)
ROWS = st.lists(st.integers(0, 8), max_size=60)
NAMES = ["M 31", "", "Øresund", "x" * 40]

VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "number": (pa.int32(), lambda i: i),
    "text": (pa.string(), lambda i: NAMES[i % 4]),
    "large_text": (pa.large_string(), lambda i: NAMES[i % 4]),
    "flag": (pa.bool_(), lambda i: i % 3 == 0),
    "blob": (pa.binary(2), lambda i: bytes([i % 256, 7])),
    "price": (pa.decimal128(8, 2), lambda i: Decimal(i) / 4),
    "seen": (pa.timestamp("us", "UTC"), lambda i: datetime(2026, 1, 1, 0, 0, i % 60, tzinfo=UTC)),
    "band": (pa.dictionary(pa.int8(), pa.string()), lambda i: "grizy"[i % 5]),
    "list": (pa.list_(pa.float32()), lambda i: [float(i)] * (i % 3)),
    "vector": (pa.list_(pa.float64(), 2), lambda i: [float(i), -1.0]),
    "struct": (pa.struct([("a", pa.int8()), ("b", pa.string())]), lambda i: {"a": i % 100, "b": None}),
    "map": (pa.map_(pa.string(), pa.int64()), lambda i: [("k", i)] * (i % 2)),
    "nested": (pa.list_(pa.struct([("a", pa.list_(pa.string()))])), lambda i: [{"a": NAMES[: i % 4]}]),
    "nothing": (pa.null(), lambda i: None),
}
PLAIN: dict[str, tuple[pa.DataType, Any]] = {
    "int8": (pa.int8(), lambda i: i % 100),
    "uint16": (pa.uint16(), lambda i: i),
    "float16": (pa.float16(), lambda i: np.float16(i)),
    "float32": (pa.float32(), lambda i: float("inf") if i % 4 == 0 else i / 3),
    "float64": (pa.float64(), lambda i: -0.0 if i % 4 == 0 else i / 3),
    "date": (pa.date32(), lambda i: i),
    "time": (pa.time64("us"), lambda i: i),
    "lasts": (pa.duration("s"), lambda i: i),
    "true": (pa.bool_(), lambda i: i % 2 == 0),
}
"""Columns without nulls."""


def rows_of(keys: list[int], first: int = 0) -> pa.RecordBatch:
    """Rows with a column of every kind; every third value is null."""
    places = range(first, first + len(keys))
    columns = {"_healpix_29": pa.array(keys, pa.int64()), "place": pa.array(places, pa.int64())}
    for name, (kind, value) in VALUES.items():
        columns[name] = pa.array([None if place % 3 == 1 else value(place) for place in places], kind)
    for name, (kind, value) in PLAIN.items():
        columns[name] = pa.array([value(place) for place in places], kind)
    # Of a column with nulls, some batches have none.
    columns["late"] = pa.array([None if place > 20 else place for place in places], pa.int16())
    return pa.record_batch(columns)


def as_map_tasks_send_it(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(np.argsort(keys_of(batch), kind="stable")))


def cut(keys: list[int], cuts: list[int]) -> list[pa.RecordBatch]:
    """Batches of the source, each with dictionaries of its own, sorted as map tasks sort them."""
    edges = sorted({0, len(keys), *(edge % (len(keys) + 1) for edge in cuts)})
    pieces = [(first, keys[first:last]) for first, last in pairwise(edges)]
    return [as_map_tasks_send_it(rows_of(piece, first)) for first, piece in pieces]


@given(KEYS)
def test_curve_order_is_a_stable_sort(keys: list[int]) -> None:
    array = np.array(keys, np.int64)
    assert np.array_equal(curve_order(array), np.argsort(array, kind="stable"))


@pytest.mark.parametrize("distinct", [1, 2, 1000, 40_000, 10**15])
def test_curve_order_is_stable_however_many_keys_are_equal(distinct: int) -> None:
    keys = np.random.default_rng(2).integers(0, distinct, 50_000)
    before = keys.copy()
    assert np.array_equal(curve_order(keys), np.argsort(keys, kind="stable"))
    assert np.array_equal(keys, before)


@pytest.mark.parametrize("crowded", [2, 300, 20_000])
def test_curve_order_tells_a_crowd_on_a_wide_sky_apart(crowded: int) -> None:
    """Keys that differ only far behind the digits that are looked at first, few of them or most."""
    rng = np.random.default_rng(3)
    sky = rng.integers(0, 12 << 58, 25_000)
    keys = rng.permutation(np.concatenate([sky, sky[0] + rng.integers(0, 1000, crowded)]))
    assert np.array_equal(curve_order(keys), np.argsort(keys, kind="stable"))


@given(
    ROWS, st.lists(st.integers(0, 60), max_size=5), st.integers(1, 25), st.sampled_from([1, 3000, 1 << 24])
)
def test_row_groups_are_the_stable_sort_of_all_rows(
    keys: list[int], cuts: list[int], row_group_rows: int, gathered_bytes: int
) -> None:
    whole = rows_of(keys)
    expected = as_map_tasks_send_it(whole).to_pylist()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "_GATHERED_BYTES", gathered_bytes)
        groups = list(SortedBatches(cut(keys, cuts)).row_groups(row_group_rows))
    assert [row for group in groups for row in group.to_pylist()] == expected
    full, rest = divmod(len(keys), row_group_rows)
    assert [group.num_rows for group in groups] == [row_group_rows] * full + [rest] * (rest > 0)
    assert all(group.schema == whole.schema for group in groups)


def test_batches_without_rows_change_nothing() -> None:
    empty, batch = rows_of([]), rows_of([1, 2, 2])
    groups = list(SortedBatches([empty, batch, empty]).row_groups(2))
    assert [group["place"].to_pylist() for group in groups] == [[0, 1], [2]]
    assert list(SortedBatches([empty]).row_groups(2)) == []
    assert list(SortedBatches([]).row_groups(2)) == []


def test_slices_of_a_batch_are_merged_like_batches() -> None:
    batch = as_map_tasks_send_it(rows_of([5, 1, 3, 1, 5, 9]))
    (group,) = SortedBatches([batch.slice(1, 2), batch.slice(3, 2)]).row_groups(10)
    assert group.to_pylist() == batch.to_pylist()[1:5]


def test_dictionaries_of_different_files_come_together() -> None:
    def batch(keys: list[int], bands: list[str]) -> pa.RecordBatch:
        column = pa.array(bands).dictionary_encode()
        return pa.record_batch({"_healpix_29": keys, "band": column})

    first = batch(list(range(0, 200, 2)), [f"a{i}" for i in range(100)])
    second = batch(list(range(1, 200, 2)), [f"b{i}" for i in range(100)])
    groups = list(SortedBatches([first, second]).row_groups(60))
    found = [band for group in groups for band in group["band"].to_pylist()]
    assert found == [f"{'ab'[i % 2]}{i // 2}" for i in range(200)]


@given(ROWS, st.integers(0, 9), st.integers(0, 9))
def test_within_is_what_a_filter_gives(keys: list[int], a: int, b: int) -> None:
    start, stop = sorted((a, b))
    batch = pa.record_batch({"_healpix_29": pa.array(sorted(keys), pa.int64()), "n": range(len(keys))})
    found = within(batch, start, stop)
    mask = [start <= key < stop for key in sorted(keys)]
    assert found.to_pylist() == batch.filter(pa.array(mask, pa.bool_())).to_pylist()


@given(
    ROWS,
    st.lists(st.integers(0, 60), max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4),
    st.integers(1, 25),
)
def test_stretches_are_merged_like_batches_of_their_rows(
    keys: list[int], cuts: list[int], stretches: list[tuple[int, int]], row_group_rows: int
) -> None:
    """One after another of the same batches, and each within the one before."""
    batches = cut(keys, cuts)
    whole = SortedBatches(batches)
    inner, low, high = whole, 0, 9
    for start, stop in map(sorted, stretches):
        low, high = max(low, start), max(start, low, min(high, stop))
        inner = inner.within(start, stop)
        for found, (first, last) in (whole.within(start, stop), (start, stop)), (inner, (low, high)):
            alone = [within(batch, first, last) for batch in batches]
            assert found.num_rows == sum(batch.num_rows for batch in alone)
            groups = list(found.row_groups(row_group_rows))
            expected = list(SortedBatches(alone).row_groups(row_group_rows))
            assert [group.to_pylist() for group in groups] == [group.to_pylist() for group in expected]
    assert SortedBatches.of(whole) is whole
    assert SortedBatches.of(batches).num_rows == len(keys)
