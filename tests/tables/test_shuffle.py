"""The shuffle plan: the four cases, the files that it promises, and how evenly it spreads the work."""

from __future__ import annotations

import numpy as np
import pytest
from hipslake.specs.partition_fields import PartitionField
from hipslake.tables.shuffle import FILE_BYTES, SLACK, ShuffleCase, ShufflePlan, ValueCounts, plan_shuffle
from hypothesis import given
from hypothesis import strategies as st


def fields(*texts: str) -> tuple[PartitionField, ...]:
    return tuple(PartitionField.parse(text) for text in texts)


def counted(*pairs: tuple[int, int, int]) -> ValueCounts:
    source, value, rows = np.array(pairs, np.int64).reshape(-1, 3).T
    return ValueCounts(source, value, rows, int(value.max(initial=-1)) + 1)


def planned(counts: ValueCounts, *texts: str, upsert: bool = False, **given: object) -> ShufflePlan:
    knobs = {"row_bytes": 10.0, "target_bytes": 1_000_000, "cores": 2} | given
    sources = int(counts.source.max(initial=-1)) + 1
    key = ("id",) if upsert else ()
    return plan_shuffle(counts, partition=fields(*texts), upsert=upsert, key=key, sources=sources, **knobs)


@pytest.mark.parametrize(
    ("texts", "upsert", "case", "shuffled", "routed_by"),
    [
        (("year(ts)",), False, 1, False, ()),
        (("bucket[16](id)", "year(ts)"), False, 2, True, ("bucket[16](id)", "year(ts)")),
        (("year(ts)",), True, 3, True, ("id", "year(ts)")),
        (("bucket[16](data)", "year(ts)"), True, 4, True, ("bucket[16](data)", "year(ts)")),
    ],
)
def test_the_examples_of_the_rfc(
    texts: tuple[str, ...], upsert: bool, case: int, shuffled: bool, routed_by: tuple[str, ...]
) -> None:
    plan = planned(counted((0, 0, 50), (0, 1, 50), (0, 2, 7)), *texts, upsert=upsert)
    assert (plan.case.value, plan.shuffled, plan.fields) == (case, shuffled, routed_by)
    assert plan.expected_files == 3  # one per partition value
    assert f"case {case} of 4" in plan.explain()
    assert "Expected files: 3," in plan.explain()


@pytest.mark.parametrize(
    ("texts", "range_only"),
    [
        (("year(a)", "void(b)"), True),
        (("month(a)",), True),
        (("day(a)",), True),
        (("hour(a)",), True),
        ((), True),
        (("a",), False),
        (("day(a)", "bucket[4](b)"), False),
        (("truncate[4](b)",), False),
        (("healpix[5]",), False),
    ],
)
def test_range_only_is_time_and_void(texts: tuple[str, ...], range_only: bool) -> None:
    case = planned(counted((0, 0, 10)), *texts).case
    assert case is (ShuffleCase.APPEND_RANGE_ONLY if range_only else ShuffleCase.APPEND)


def test_a_range_only_append_is_shuffled_where_every_task_meets_every_value() -> None:
    pairs = [(task, day, 100) for task in range(20) for day in range(30)]
    plan = planned(counted(*pairs), "day(ts)")
    assert plan.case is ShuffleCase.APPEND_RANGE_ONLY
    assert plan.shuffled
    assert plan.expected_files == 30
    assert "600 files, not 30" in plan.explain()
    in_order = planned(counted(*[(task, task, 100) for task in range(20)]), "day(ts)")
    assert not in_order.shuffled
    assert in_order.expected_files == 20


def test_a_hot_value_is_spread_and_small_ones_share_a_task() -> None:
    rows = np.full(10_000, 100, np.int64)
    rows[4321] = 9_000_000
    counts = ValueCounts(np.zeros(10_000, np.int64), np.arange(10_000), rows, 10_000)
    plan = planned(counts, "x", cores=8)
    assert plan.files[4321] == 72  # 90 MB in files of 1.25 MB at most
    assert len(np.unique(plan.task[plan.first_file[4321] :][:72])) == plan.tasks == 16
    assert plan.task_bytes.max() <= 1.2 * plan.task_bytes.mean()
    assert plan.expected_files == 9_999 + 72
    assert "Hot values: 1, cut into 72 files" in plan.explain()


@given(
    rows=st.lists(st.integers(1, 10**6), min_size=1, max_size=60),
    hot=st.integers(0, 10**7),
    cores=st.integers(1, 64),
    target=st.integers(50_000, 10**8),
)
def test_no_task_has_more_than_twice_the_mean(rows: list[int], hot: int, cores: int, target: int) -> None:
    counts = counted(*[(0, value, count) for value, count in enumerate([*rows, hot] if hot else rows)])
    plan = planned(counts, "x", cores=cores, target_bytes=target)
    load = plan.task_bytes
    assert load.max() <= 2 * load.mean() + 10 * plan.tasks  # whole rows
    assert set(plan.task.tolist()) <= set(range(plan.tasks))


@given(
    pairs=st.dictionaries(
        st.tuples(st.integers(0, 5), st.integers(0, 7)), st.integers(1, 400), min_size=1, max_size=30
    ),
    target=st.integers(10, 3000),
)
def test_every_row_has_a_file_and_every_file_its_even_share(
    pairs: dict[tuple[int, int], int], target: int
) -> None:
    used = {value: at for at, value in enumerate(sorted({value for _, value in pairs}))}
    counts = counted(*[(source, used[value], rows) for (source, value), rows in pairs.items()])
    plan = planned(counts, "x", target_bytes=target)
    first = counts.first_ranks()
    value = np.repeat(counts.value, counts.rows)
    rank = np.concatenate([np.arange(a, a + n) for a, n in zip(first, counts.rows, strict=True)])
    file = plan.first_file[value] + rank * plan.files[value] // counts.totals[value]
    assert sorted(zip(value.tolist(), rank.tolist(), strict=True)) == [
        (v, r) for v, total in enumerate(counts.totals.tolist()) for r in range(total)
    ]
    in_file = np.bincount(file, minlength=plan.expected_files)
    assert len(in_file) == plan.expected_files
    owner = np.repeat(np.arange(counts.values), plan.files)
    for v in range(counts.values):
        mine = in_file[owner == v]
        assert mine.max() - mine.min() <= 1
        assert mine.sum() == counts.totals[v]
        assert mine.max() <= SLACK * target / 10.0 + 1
    assert (value == owner[file]).all()
    load = np.bincount(plan.task[file], weights=np.full(len(file), 10.0), minlength=plan.tasks)
    load += FILE_BYTES * np.bincount(plan.task, minlength=plan.tasks)
    assert np.abs(load - plan.task_bytes).max() <= 1


def test_a_plan_of_no_rows_promises_no_files() -> None:
    plan = planned(counted(), "x")
    assert plan.expected_files == 0
    assert plan.explain()
