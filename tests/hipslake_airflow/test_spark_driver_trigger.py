"""What waits for a job whose driver runs on the cluster: when it takes the job for dead, and when not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hipslake.steps.run import RunFolder, StartedJob, SubmittedJob
from hipslake_airflow.triggers import spark_driver
from hipslake_airflow.triggers.spark_driver import SparkDriverTrigger

STEP = "histogram"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path))


def last(folder: RunFolder) -> SubmittedJob:
    found = folder.submission(STEP)
    assert found is not None
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(spark_driver.time, "monotonic", lambda: now[0])
    return now


def waiting(folder: RunFolder, attempt: str = "a") -> SparkDriverTrigger:
    folder.write(
        folder.submission_path(STEP), SubmittedJob(attempt=attempt, fingerprint="f", is_accepted=True)
    )
    return SparkDriverTrigger(
        run_uri=folder.uri,
        step=STEP,
        attempt=attempt,
        start_seconds=60,
        deadline="2999-01-01T00:00:00+00:00",
    )


def lost_after(trigger: SparkDriverTrigger, clock: list[float], most: float, pause: float = 2.0) -> float:
    """After how many seconds of looks a job is taken for dead."""
    start = clock[0]
    while not trigger.look(None).is_awaited:
        clock[0] += pause
        if clock[0] - start > most:
            return float("inf")
    return clock[0] - start


def test_a_job_that_does_not_begin_is_lost_after_its_time(folder: RunFolder, clock: list[float]) -> None:
    trigger = waiting(folder)
    folder.write(folder.job_path(STEP), StartedJob(application="app", attempt="of before", beats=7))
    assert 60 < lost_after(trigger, clock, 1000) <= 64
    assert "not begun within 60 s" in trigger.look(None).event["lost"]


def test_a_job_that_falls_silent_is_lost_and_one_that_speaks_is_not(
    folder: RunFolder, clock: list[float]
) -> None:
    trigger = waiting(folder)
    for beats in range(1, 30):
        folder.write(folder.job_path(STEP), StartedJob(application="app", attempt="a", beats=beats))
        assert lost_after(trigger, clock, 170) == float("inf")
    assert 180 - 172 < lost_after(trigger, clock, 1000) <= 190
    assert "said nothing for 180 s" in trigger.look(None).event["lost"]


def test_time_in_which_nobody_looked_is_no_silence(folder: RunFolder, clock: list[float]) -> None:
    trigger = waiting(folder)
    folder.write(folder.job_path(STEP), StartedJob(application="app", attempt="a", beats=1))
    trigger.look(None)
    clock[0] += 100_000  # the store did not answer, or the machine slept
    assert not trigger.look(None).is_awaited
    # A triggerer that has started again knows nothing of the silence before.
    again = SparkDriverTrigger(**trigger.serialize()[1])
    assert not again.look(None).is_awaited


def test_a_task_that_is_stopped_stops_its_job(folder: RunFolder) -> None:
    trigger = waiting(folder)
    asyncio.run(trigger.on_kill())
    assert not last(folder).is_wanted
    assert "stopped" in trigger.look(None).event["lost"]
    other = waiting(folder, "b")
    asyncio.run(trigger.on_kill())  # of the attempt before: this one is wanted
    assert last(folder) == SubmittedJob(attempt="b", fingerprint="f", is_accepted=True)
    assert not other.look(None).is_awaited
