"""Rows go to the files that their ranks say, and to the tasks of these, in source order."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hipslake.engine.model import Block
from hipslake.specs.partition_fields import PartitionField
from hipslake.steps.sink.file_runs import FileRuns, by_file
from hipslake.tables.shuffle import ShufflePlan, ValueCounts, plan_shuffle
from hypothesis import given
from hypothesis import strategies as st

sources = st.lists(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=40), max_size=4), min_size=1, max_size=4
)
"""The partition value of each row, by source and batch."""


def planned(given: list[list[list[int]]], target_bytes: int) -> ShufflePlan:
    found = [
        (source, value, sum(batch.count(value) for batch in batches))
        for source, batches in enumerate(given)
        for value in range(7)
    ]
    some = [each for each in found if each[2]]
    numbers = (np.array([each[at] for each in some], np.int64) for at in range(3))
    return plan_shuffle(
        ValueCounts(*numbers, 7),
        partition=[PartitionField.parse("x")],
        upsert=False,
        sources=len(given),
        row_bytes=10.0,
        target_bytes=target_bytes,
        cores=2,
        task_bytes=60,
    )


@given(sources, st.integers(20, 400))
def test_each_file_gets_its_share_of_the_rows_of_a_value_in_source_order(
    given: list[list[list[int]]], target_bytes: int
) -> None:
    plan = planned(given, target_bytes)
    totals = plan.counts.totals
    if not totals.sum() or not plan.shuffled:
        return
    starts, sent, number = plan.counts.first_ranks(), defaultdict(list), 0
    of_value: dict[int, list[int]] = defaultdict(list)
    for source, batches in enumerate(given):
        ranks = np.zeros(len(totals), np.int64)
        mine = plan.counts.source == source
        ranks[plan.counts.value[mine]] = starts[mine]
        for values in batches:
            rows = pa.record_batch({"row": pa.array(range(number, number + len(values)))})
            runs = FileRuns.by_rank(plan, np.array(values, np.int64), ranks, totals)
            for target, part in runs.routed(rows, plan):
                sent[target].append(Block(len(sent), part).rows)
            for value in values:
                of_value[value].append(number)
                number += 1
    for target, batches in sent.items():
        for file, rows in by_file(batches):
            assert plan.task[file] == target
            value = int(np.searchsorted(plan.first_file, file, side="right")) - 1
            own, files, total = file - plan.first_file[value], plan.files[value], int(totals[value])
            expected = [row for rank, row in enumerate(of_value[value]) if rank * files // total == own]
            assert rows["row"].to_pylist() == expected
            assert rows.column_names == ["row"]
            number -= rows.num_rows
    assert number == 0


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.permutations(range(5)))
def test_rows_of_known_files_stay_in_their_order(files: list[int], task: list[int]) -> None:
    rows = [[[value % 7 for value in files]]]
    plan = planned(rows, 10**6)
    plan = ShufflePlan(
        plan.case, True, (), plan.counts, 1.0, 1, np.ones(5, np.int64), np.arange(5), np.array(task), 5, ""
    )
    batch = pa.record_batch({"row": pa.array(range(len(files)))})
    found: dict[int, list[int]] = {}
    for _, part in FileRuns.by_file(plan, np.array(files)).routed(batch, plan):
        found |= {file: some["row"].to_pylist() for file, some in by_file([part])}
    assert found == {file: [at for at, each in enumerate(files) if each == file] for file in set(files)}
