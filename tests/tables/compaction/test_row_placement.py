"""Which new file rows go to: in the order in which they are read, in a sort order, by new partitions."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.clustering.file_placement import row_numbers
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.steps.compact_table.row_placement import (
    PartitionPlacement,
    SequentialPlacement,
    SortedPlacement,
)
from hipslake.tables.partition_values import PartitionValues, value_columns
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.one_of(st.none(), st.sampled_from([0.0, 1.5, -2.0, math.nan, math.inf]))
ROWS = st.lists(st.tuples(VALUES, st.one_of(st.none(), st.sampled_from("abc"))), min_size=1, max_size=200)


def batch_of(rows: list[tuple[Any, Any]]) -> pa.RecordBatch:
    numbers, texts = zip(*rows, strict=True)
    return pa.record_batch({"x": pa.array(numbers, pa.float64()), "t": pa.array(texts, pa.string())})


def plain_key(row: tuple[Any, Any], *, descending: bool, nulls_first: bool) -> tuple[Any, ...]:
    """Of the order `t` with nulls last, then `x`: NaN is the greatest number."""
    x, t = row
    number = (0, 0.0) if x is None else (0, x) if not math.isnan(x) else (1, 0.0)
    if descending:
        number = (-number[0], -number[1])
    place = (x is None) is not nulls_first
    return t is None, t or "", place, number


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls", ["first", "last"])
@given(rows=ROWS, files=st.integers(1, 6), cut=st.integers(0, 200))
def test_files_follow_each_other_in_the_sort_order(
    descending: bool, nulls: str, rows: list[tuple[Any, Any]], files: int, cut: int
) -> None:
    way = "desc" if descending else "asc"
    fields = (SortField.parse("t nulls last"), SortField.parse(f"x {way} nulls {nulls}"))
    batch = batch_of(rows)
    sample = pa.Table.from_batches([batch]).select(["x", "t"])
    placement = SortedPlacement.of_sample(sample, fields, files, seed=1)
    numbers = row_numbers(0, 0, len(rows))
    found = np.concatenate(
        [
            placement.place(batch.slice(first, stop - first), numbers[first:stop])[0]
            for first, stop in [(0, min(cut, len(rows))), (min(cut, len(rows)), len(rows))]
        ]
    )
    assert found.min() >= 0
    assert found.max() < files
    by_file: dict[int, list[Any]] = {}
    for file, row in zip(found.tolist(), rows, strict=True):
        key = plain_key(row, descending=descending, nulls_first=nulls == "first")
        by_file.setdefault(file, []).append(key)
    in_order = [by_file[file] for file in sorted(by_file)]
    for one, two in pairwise(in_order):
        assert max(one) <= min(two)
    # The sample is all rows, with the same noise: files are even.
    counts = np.bincount(found, minlength=files)
    assert counts.max() - counts.min() <= 1


def test_without_a_sample_all_rows_go_to_one_file() -> None:
    batch = batch_of([(1.0, "a"), (None, None)])
    nothing = pa.Table.from_batches([batch.slice(0, 0)])
    placement = SortedPlacement.of_sample(nothing, (SortField.parse("x"),), 4, seed=0)
    assert placement.place(batch, row_numbers(0, 0, 2))[0].tolist() == [0, 0]


def test_rows_go_to_files_in_the_order_in_which_they_are_read() -> None:
    placement = SequentialPlacement(np.array([3, 7]), np.array([0.0, 100.0]), np.array([10.0, 2.0]), 200.0, 4)
    first = placement.place(batch_of([(0.0, "a")] * 10), row_numbers(3, 0, 10))[0]
    second = placement.place(batch_of([(0.0, "a")] * 60), row_numbers(7, 0, 60))[0]
    assert first.tolist() == [0] * 5 + [1] * 5
    assert second.tolist() == [2] * 25 + [3] * 35  # more rows than were told go to the last file


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=300), st.integers(1, 4))
def test_rows_go_to_the_files_of_their_partition(ids: list[int], files: int) -> None:
    fields = (PartitionField.parse("truncate[10](id)"),)
    batch = pa.record_batch({"id": pa.array(ids, pa.int64())})
    values = PartitionValues.of(value_columns(fields, batch))
    each = np.array([1 + number % files for number in range(values.count)])
    placement = PartitionPlacement(fields, values, each, seed=0)
    found = placement.place(batch, row_numbers(0, 0, len(ids)))[0]
    assert len(placement.partitions) == each.sum()
    records = values.records()
    assert [records[placement.partitions[file]] for file in found] == [(number // 10 * 10,) for number in ids]
