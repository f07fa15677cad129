"""The parts of a task's time make up the whole, wherever its log is silent."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from benchmarks.last_seconds import Ingest, Way, median_run, page, table_of
from benchmarks.last_seconds_parsing import Change, Round, is_met
from benchmarks.last_seconds_tasks import COLUMNS, TaskSeconds, moment, parts, seconds_of_run

BEGIN = datetime(2026, 11, 29, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def line(seconds: float, event: str) -> dict[str, Any]:
    return {"timestamp": at(seconds).isoformat().replace("+00:00", "Z"), "event": event}


LOG = [
    line(1.5, "::group::Pre Execute"),
    line(2.0, "Filling up the DagBag from /dags/survey.py"),
    line(2.25, "Worker startup parse complete"),
    line(2.75, "::endgroup::"),
    line(3.0, "Spark-Submit cmd: spark-submit"),
    line(9.75, "::group::Post Execute"),
    line(9.8, "::endgroup::"),
]


def test_a_job_is_cut_into_spark_and_what_its_step_did() -> None:
    found = parts(at(0), at(1), at(10), LOG, {"session": 2.0, "count": 1.0, "write": 0.5})
    assert found == {
        "scheduler": 1.0,
        "process": 1.0,
        "DAG file": 0.25,
        "before": 0.5,
        "Spark": 5.5,
        "work": 1.5,
        "after": 0.25,
    }


def test_a_step_in_its_own_process_has_no_spark() -> None:
    log = [each for each in LOG if "Spark" not in each["event"]]
    found = parts(at(0), at(1), at(10), log, {"count": 1.0})
    assert (found["Spark"], found["work"]) == (0.0, 7.0)


@pytest.mark.parametrize("kept", range(len(LOG) + 1))
def test_the_parts_of_a_log_that_breaks_off_make_up_the_whole(kept: int) -> None:
    found = parts(at(0), at(1), at(10), LOG[:kept], {"count": 100.0})
    assert tuple(found) == COLUMNS
    assert sum(found.values()) == pytest.approx(10.0)
    assert min(found.values()) >= 0.0


def test_times_without_a_zone_are_of_utc() -> None:
    assert moment("2026-11-29 12:00:00") == moment("2026-11-29T12:00:00Z") == BEGIN


def test_a_run_is_told_until_its_asset_event(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/airflow.db"
    with create_engine(url).begin() as database:
        database.execute(text("create table task_instance (task_id, run_id, dag_id, start_date, end_date)"))
        database.execute(text("create table asset_event (timestamp, source_run_id, source_dag_id)"))
        for task, start, end in (("plan", 1, 2), ("publish", 3, 5), ("view", 6, 7)):
            given = {"task": task, "start": str(at(start)), "end": str(at(end))}
            database.execute(text("insert into task_instance values (:task, 'r', 'd', :start, :end)"), given)
        database.execute(text("insert into task_instance values ('later', 'r', 'd', null, null)"))
        database.execute(text("insert into asset_event values (:at, 'r', 'd')"), {"at": str(at(4.5))})
    for task in ("plan", "publish", "view"):
        log = tmp_path / "logs" / "dag_id=d" / "run_id=r" / f"task_id={task}" / "attempt=1.log"
        log.parent.mkdir(parents=True)
        log.write_text("not of JSON\n" + json.dumps(line(1.5, "Filling up the DagBag")) + "\n")
    environment = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
        "AIRFLOW_HOME": str(tmp_path),
        "HIPSLAKE_WAREHOUSE": str(tmp_path),
    }
    seconds, tasks = seconds_of_run(environment, "d", "r", BEGIN)
    assert seconds == 4.5
    assert [task.name for task in tasks] == ["plan", "publish"]
    assert sum(task.whole for task in tasks) == pytest.approx(seconds)


def test_bars_are_of_medians_and_of_a_thousand_specs() -> None:
    task = TaskSeconds("plan", dict.fromkeys(COLUMNS, 1.0))
    runs = [Ingest(seconds, 3.0, [task], 0.5) for seconds in (9.0, 17.0, 30.0)]
    assert median_run(runs).seconds == 17.0
    assert table_of(runs[0])[-1].endswith("| **7.00** |")
    rounds = [Round(20, 140, 5.0, 70.0, 0.1), Round(1000, 7000, 90.0, 59.0, 7.0)]
    changes = [Change(300, 15, 141, 0.125)]
    for bar, met in ((18.0, True), (16.0, False)):
        told, found = page([(Way("a way", {}, bar=bar), runs)], rounds, changes)
        assert found is met
        assert "| a way | 3 | 9.0 | 17.0 | 30.0 |" in told
        assert told.endswith("| 300 | 15 | 141 | 0.12 |\n")
    assert not is_met([*rounds, Round(1000, 7000, 90.0, 61.0, 7.0)])
