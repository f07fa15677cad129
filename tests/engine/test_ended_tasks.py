"""Engines tell which tasks have ended, in the process that has started them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hipslake.engine.this_process import ThisProcess

NUMBERS = pa.schema([("n", pa.int64())])


def task(number: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([[number]], NUMBERS)


def test_each_task_is_told_of_when_it_has_ended() -> None:
    done: set[int] = set()
    told: list[int] = []

    def noting(number: int) -> Iterator[pa.RecordBatch]:
        yield from task(number)
        done.add(number)

    def ended(number: int) -> None:
        assert number in done
        told.append(number)

    found = ThisProcess(3).run(noting, tasks=20, result=NUMBERS, ended=ended)
    assert sorted(found["n"].to_pylist()) == sorted(told) == list(range(20))


def test_no_two_are_told_of_at_once() -> None:
    inside = threading.Lock()

    def ended(number: int) -> None:
        assert inside.acquire(blocking=False)
        threading.Event().wait(0.001)
        inside.release()

    ThisProcess(4).run(task, tasks=40, result=NUMBERS, ended=ended)


def test_a_task_that_fails_is_not_told_of() -> None:
    told: list[int] = []

    def failing(number: int) -> Iterator[pa.RecordBatch]:
        yield from task(number)
        if number == 2:
            raise ValueError("2 fails")

    with pytest.raises(ValueError, match="2 fails"):
        ThisProcess(1).run(failing, tasks=5, result=NUMBERS, ended=told.append)
    assert 2 not in told
    assert told[:2] == [0, 1]
