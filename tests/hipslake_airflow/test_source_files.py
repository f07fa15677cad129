"""Waiting for files: no worker slot held, the deadline kept, and the message says what was looked for."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    TaskDeferred,
)
from hipslake.errors import NotWritableError, StorageError
from hipslake.steps.report import Failure, failure_of
from hipslake.steps.run import RunFolder
from hipslake_airflow.sensors.source_files import SourceFilesSensor
from hipslake_airflow.triggers.source_files import SourceFilesTrigger

from tests.steps import in_process
from tests.stores.slow import running_slow

HOUR = timedelta(hours=1)


def source(uri: str) -> dict[str, Any]:
    return {"uri": uri, "format": "parquet"}


def trigger(uri: str, wait: timedelta = HOUR) -> SourceFilesTrigger:
    deadline = (datetime.now(UTC) + wait).isoformat()
    return SourceFilesTrigger(source=source(uri), deadline=deadline, poke_interval=0.01)


async def first_event(waiting: SourceFilesTrigger) -> Any:
    async for event in waiting.run():
        return event.payload
    return None


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    return in_process.start(tmp_path / "warehouse", spec, wait_minutes=5)


def execute(sensor: SourceFilesSensor) -> Any:
    return sensor.execute.__wrapped__(sensor, {})  # type: ignore[attr-defined]


def test_the_trigger_fires_when_a_file_comes(tmp_path: Path) -> None:
    async def meet() -> Any:
        waiting = asyncio.create_task(first_event(trigger(f"{tmp_path}/*.parquet")))
        (tmp_path / "late.parquet").touch()
        return await asyncio.wait_for(waiting, 30)

    assert asyncio.run(meet()) == {"files": 1}


def test_the_trigger_fires_with_nothing_when_the_time_is_over(tmp_path: Path) -> None:
    assert asyncio.run(first_event(trigger(f"{tmp_path}/*.parquet", -HOUR))) == {"files": 0}


def test_the_trigger_tells_what_it_cannot_list() -> None:
    event = asyncio.run(first_event(trigger("${NO_SUCH_VARIABLE}/*.parquet")))
    failure = Failure.model_validate(event["failure"])
    assert (failure.kind, failure.retryable) == ("SpecError", False)
    assert "NO_SUCH_VARIABLE" in failure.message


def test_the_trigger_looks_again_when_looking_failed_in_a_way_that_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([StorageError("no answer"), StorageError("no answer"), 2])

    def count_files(source: dict[str, Any], access: object) -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("hipslake_airflow.triggers.source_files.count_files", count_files)
    assert asyncio.run(first_event(trigger(f"{tmp_path}/*.parquet"))) == {"files": 2}


def test_a_listing_that_does_not_end_is_told_and_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a silent store: many triggers look, and threads of others are free meanwhile."""
    monkeypatch.setenv("HIPSLAKE_LISTING_SECONDS", "1")

    async def meet() -> tuple[list[Any], float]:
        with running_slow("silent") as server:
            waiting = [trigger(f"{server.url}/*.parquet", -HOUR) for _ in range(40)]
            events = asyncio.gather(*(first_event(one) for one in waiting))
            slowest = 0.0
            while not events.done():
                start = time.monotonic()
                await asyncio.to_thread(time.sleep, 0.01)
                slowest = max(slowest, time.monotonic() - start)
            return await events, slowest

    start = time.monotonic()
    events, slowest = asyncio.run(meet())
    assert time.monotonic() - start < 10
    assert slowest < 0.8
    for event in events:
        failure = Failure.model_validate(event["failure"])
        assert (failure.kind, failure.retryable) == ("StoreTimeoutError", True)
        assert "HIPSLAKE_" in failure.message
    assert sum(thread.name.startswith("hipslake-listing") for thread in threading.enumerate()) <= 8


def test_seconds_of_a_listing_that_are_none_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_LISTING_SECONDS", "soon")
    event = asyncio.run(first_event(trigger(f"{tmp_path}/*.parquet", -HOUR)))
    failure = Failure.model_validate(event["failure"])
    assert (failure.kind, failure.retryable) == ("SpecError", False)
    assert "HIPSLAKE_LISTING_SECONDS is 'soon'" in failure.message


def test_the_trigger_comes_back_as_it_was_after_a_restart(tmp_path: Path) -> None:
    from airflow._shared.module_loading import import_string

    waiting = trigger(f"{tmp_path}/*.parquet")
    path, arguments = waiting.serialize()
    assert import_string(path)(**arguments).serialize() == waiting.serialize()


def test_the_sensor_does_not_defer_when_files_are_there(folder: RunFolder, tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing")
    assert execute(SourceFilesSensor(task_id="wait", run_uri=folder.uri)) is None


def test_the_sensor_defers_for_as_long_as_the_run_says(folder: RunFolder) -> None:
    with pytest.raises(TaskDeferred) as caught:
        execute(SourceFilesSensor(task_id="wait", run_uri=folder.uri))
    deadline = datetime.fromisoformat(caught.value.trigger.deadline)
    assert timedelta(minutes=4) < deadline - datetime.now(UTC) <= timedelta(minutes=5)
    assert caught.value.timeout > timedelta(minutes=5)


def test_a_link_out_of_the_landing_ends_the_waiting_and_is_named(folder: RunFolder, tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "private")
    (tmp_path / "landing").mkdir()
    link = tmp_path / "landing" / "night.parquet"
    link.symlink_to(tmp_path / "private" / "part-0.parquet")
    for deferrable in (True, False):
        sensor = SourceFilesSensor(task_id="wait", run_uri=folder.uri, deferrable=deferrable)
        with pytest.raises(AirflowFailException, match=rf"{link} is a link.*leads out of {tmp_path}/landing"):
            execute(sensor)
    event = asyncio.run(first_event(trigger(f"{tmp_path}/landing/*.parquet")))
    failure = Failure.model_validate(event["failure"])
    assert (failure.kind, failure.retryable) == ("InputError", False)
    assert "night.parquet is a link" in failure.message


def test_the_sensor_fails_saying_what_it_looked_for(folder: RunFolder, tmp_path: Path) -> None:
    sensor = SourceFilesSensor(task_id="wait", run_uri=folder.uri)
    with pytest.raises(
        AirflowSensorTimeout, match=rf"No file matched {tmp_path}/landing/\*.parquet within 0:05"
    ):
        sensor.execute_complete({}, {"files": 0})


def test_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing")
    folder = in_process.start(tmp_path / "warehouse", spec, wait_minutes=5)
    with pytest.raises(AirflowFailException, match="is a folder; name its files"):
        execute(SourceFilesSensor(task_id="wait", run_uri=folder.uri))


@pytest.mark.parametrize(
    ("error", "ends_the_task"),
    [
        (NotWritableError("not allowed"), True),
        (StorageError("no answer"), False),
        (OSError("no answer"), False),
    ],
)
def test_what_the_trigger_could_not_list_is_tried_again_if_it_may_pass(
    folder: RunFolder, error: Exception, ends_the_task: bool
) -> None:
    sensor = SourceFilesSensor(task_id="wait", run_uri=folder.uri)
    with pytest.raises(AirflowException, match=str(error)) as caught:
        sensor.execute_complete({}, {"failure": failure_of(error).model_dump(mode="json")})
    assert isinstance(caught.value, AirflowFailException) == ends_the_task


def test_a_wrong_source_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURVEY", str(tmp_path))
    spec = in_process.write_spec(tmp_path / "stars.yaml", "${SURVEY}/*.parquet")
    folder = in_process.start(tmp_path / "warehouse", spec, wait_minutes=5)
    monkeypatch.delenv("SURVEY")
    with pytest.raises(AirflowFailException, match="SURVEY"):
        execute(SourceFilesSensor(task_id="wait", run_uri=folder.uri))
