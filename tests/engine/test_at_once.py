"""Tasks of this process that wait for a store run at once, though there are fewer cores."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier, BrokenBarrierError

import pyarrow as pa
import pytest
from hipslake.engine.this_process import ThisProcess

RESULT = pa.schema([("target", pa.int64()), ("rows", pa.int64())])
TASKS = 6


def waiting(at_once: int, timeout: float) -> pa.Table:
    """What tasks give that all wait for each other."""
    met = Barrier(TASKS)

    def mapper(number: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        for target in range(TASKS):
            yield target, pa.record_batch({"a": [number] * (target + 1)})

    def reducer(target: int, blocks: list[object]) -> Iterator[pa.RecordBatch]:
        met.wait(timeout)
        rows = sum(block.rows.num_rows for block in blocks)  # type: ignore[attr-defined]
        yield pa.record_batch({"target": [target], "rows": [rows]})

    return ThisProcess(1).exchange(
        sources=2, mapper=mapper, targets=TASKS, reducer=reducer, result=RESULT, at_once=at_once
    )


def test_as_many_run_at_once_as_are_allowed() -> None:
    found = waiting(TASKS, 20.0).sort_by("target")
    assert found.to_pydict() == {"target": list(range(TASKS)), "rows": [2 * (n + 1) for n in range(TASKS)]}


def test_by_default_no_more_run_than_there_are_cores() -> None:
    with pytest.raises(BrokenBarrierError):
        waiting(1, 0.2)
