"""Progress: what is said of work while it runs, and how seldom. Time is a number that the test moves."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from hipslake.engine.model import Stage
from hipslake.engine.progress import Progress
from hipslake.engine.this_process import ThisProcess
from hypothesis import given
from hypothesis import strategies as st


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Told:
    """A progress and the lines that it says."""

    def __init__(self, what: str = "write", **more: object) -> None:
        self.clock, self.lines = Clock(), list[str]()
        self.progress = Progress(what, clock=self.clock, say=self.lines.append, **more)  # type: ignore[arg-type]

    def at(self, seconds: float, done: int, *stages: Stage) -> str | None:
        """What is said at a moment, if anything."""
        self.clock.now, before = 1000.0 + seconds, len(self.lines)
        self.progress.tell(done, stages)
        return self.lines[-1] if len(self.lines) > before else None


def test_a_line_says_done_of_total_rate_and_time_left() -> None:
    told = Told(total=1_000_000)
    assert told.at(20, 250_000) == "write: 250,000 of 1,000,000 rows (25%), 12,500 rows/s, about 60 s left"


def test_nothing_is_said_twice_within_ten_seconds() -> None:
    told = Told(total=100)
    assert [told.at(seconds, 1) is not None for seconds in (3, 9.9, 10, 15, 19.9, 20, 41)] == [
        False,
        False,
        True,
        False,
        False,
        True,
        True,
    ]


@given(st.lists(st.floats(0, 60), max_size=60))
def test_lines_are_at_most_one_in_an_interval(waits: list[float]) -> None:
    told, now = Told(total=100), 0.0
    for wait in waits:
        now += wait
        told.at(now, 5)
    assert len(told.lines) <= now / 10


def test_time_before_the_first_row_does_not_slow_the_rate_down() -> None:
    told = Told(total=1000)
    told.at(100, 0, Stage("stage 1", 1, 2))
    assert told.at(110, 500) == "write: 500 of 1,000 rows (50%), 50 rows/s, about 10 s left"


def test_a_stage_before_the_rows_has_a_time_of_its_own() -> None:
    told = Told(total=1000)
    told.at(5, 0)
    assert told.at(15, 0, Stage("stage 1", 8, 40)) == "write: stage 1: 8 of 40 tasks, about 40 s left"
    told.at(45, 0, Stage("stage 2", 0, 4))
    assert (
        told.at(55, 400, Stage("stage 2", 1, 4))
        == "write: 400 of 1,000 rows (40%), 40 rows/s, about 15 s left; stage 2: 1 of 4 tasks"
    )


def test_an_unknown_total_is_told_by_its_tasks() -> None:
    told = Told("histogram")
    told.at(0, 0, Stage("", 0, 10))
    assert (
        told.at(30, 600, Stage("", 3, 10)) == "histogram: 600 rows, 20 rows/s; 3 of 10 tasks, about 70 s left"
    )


def test_before_anything_has_begun_it_says_so() -> None:
    assert Told().at(10, 0) == "write: starting"


@pytest.mark.parametrize(
    ("left", "text"), [(119, "about 119 s"), (600, "about 10 min"), (9000, "about 2.5 h")]
)
def test_long_times_are_told_in_longer_units(left: int, text: str) -> None:
    assert f", {text} left" in (Told(total=10 + left, unit="files").at(10, 10) or "")


def test_more_than_was_announced_leaves_nothing() -> None:
    """A task that runs twice counts twice."""
    assert Told(total=10).at(10, 12) == "write: 12 of 10 rows (100%), 1 rows/s, about 0 s left"


def test_the_end_is_always_told() -> None:
    told = Told()
    told.clock.now += 2
    told.progress.end(500)
    assert told.lines == ["write: 500 rows in 2.0 s, 250 rows/s"]


def test_an_engine_tells_what_its_tasks_have_done(caplog: pytest.LogCaptureFixture) -> None:
    engine, schema = ThisProcess(2), pa.schema([("n", pa.int64())])
    done = engine.counter()

    def task(number: int) -> list[pa.RecordBatch]:
        done.add(7)
        return [pa.record_batch([[number]], schema)]

    with caplog.at_level(logging.INFO, "hipslake.engine.progress"), engine.progress("count", done=done):
        engine.run(task, tasks=5, result=schema)
    assert caplog.messages[-1].startswith("count: 35 rows in ")
    assert engine._stages() == [Stage("", 5, 5)]
