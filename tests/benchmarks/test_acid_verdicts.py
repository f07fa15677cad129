"""What the benchmark beside ACID says of its runs: who is faster in each task, and whether all agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.acid import INGEST, MARGINS, OURS, PEER, TASKS, ids_of, unlike, verdicts


def test_faster_in_each_task_and_of_equal_outcome_is_a_pass() -> None:
    assert all(passed for _, passed in verdicts(_runs(), {PEER: 0}))


@pytest.mark.parametrize("task", TASKS)
def test_a_task_in_which_the_median_is_slower_fails_and_is_named(task: str) -> None:
    runs = [
        {**run, "seconds": 40.0} if run["task"] == task and run["system"] == OURS else run for run in _runs()
    ]
    failed = [what for what, passed in verdicts(runs, {PEER: 0}) if not passed]
    assert failed == [f"{task}: ACID takes 0.75 times as long as hipslake"]


def test_lost_rows_and_unlike_pairs_fail() -> None:
    runs = _runs()
    runs[0]["rows"] -= 1
    failed = [what for what, passed in verdicts(runs, {PEER: 2}) if not passed]
    assert [what.split(":")[0] for what in failed] == [INGEST, "match"]


def test_margins_may_differ_in_rows() -> None:
    runs = [
        {**run, "rows": 7} if run["task"] == MARGINS and run["system"] == PEER else run for run in _runs()
    ]
    assert all(passed for _, passed in verdicts(runs, {PEER: 0}))


def test_pairs_are_compared_by_both_ids_in_any_order(tmp_path: Path) -> None:
    ids = np.random.default_rng(5).integers(0, 2**62, (500, 2))
    files = [
        _written(tmp_path / f"Npix={part}.parquet", some) for part, some in enumerate(np.split(ids[::-1], 5))
    ]
    found = ids_of(files)
    assert unlike(ids, found) == 0
    found[3, 1] += 1
    assert unlike(ids, found) == 2
    assert unlike(ids, found[:-10]) == 12
    assert unlike(ids, ids[:, ::-1]) == 1000


def _written(path: Path, ids: np.ndarray) -> Path:
    columns = {"ra": np.zeros(len(ids)), "source_id": ids[:, 0], "source_id_stars_b": ids[:, 1]}
    pq.write_table(pa.table(columns), path)
    return path


def _runs() -> list[dict[str, Any]]:
    return [
        {"system": system, "task": task, "seconds": seconds + repeat, "rows": 100}
        for repeat in (-1.0, 0.0, 1.0)
        for system, seconds in ((OURS, 20.0), (PEER, 30.0))
        for task in TASKS
    ]
