"""The seconds of each task of a run, by Airflow's database, its task logs and the reports of the steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hipslake.steps.run import run_uri
from sqlalchemy import create_engine, text

COLUMNS = ("scheduler", "process", "DAG file", "before", "Spark", "work", "after")
"""Parts of a task's time, in their order.

scheduler: from the end of the task before until the process is there; process: until it reads the DAG file,
with what it imports; before: until the operator works; Spark: of a job, all but what its step did: JVM,
session, workers, end; after: until the task has ended.
"""

_READS, _HAS_READ = "Filling up the DagBag", "Worker startup parse complete"
_WORKS, _HAS_WORKED = "::endgroup::", "::group::Post Execute"


@dataclass(frozen=True)
class TaskSeconds:
    """The parts of a task's time, by the names of columns."""

    name: str
    seconds: Mapping[str, float]

    @property
    def whole(self) -> float:
        """The time since the task before has ended."""
        return sum(self.seconds.values())


def seconds_of_run(
    environment: Mapping[str, str], dag_id: str, run_id: str, since: datetime
) -> tuple[float, list[TaskSeconds]]:
    """Return the seconds from a moment to the asset event of a run, and those of its tasks until then."""
    engine = create_engine(environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    with engine.connect() as connection:
        found = connection.execute(
            text(
                "select task_id, start_date, end_date from task_instance where run_id = :run "
                "and dag_id = :dag and start_date is not null order by start_date"
            ),
            {"run": run_id, "dag": dag_id},
        ).all()
        event = connection.execute(
            text("select timestamp from asset_event where source_run_id = :run and source_dag_id = :dag"),
            {"run": run_id, "dag": dag_id},
        ).scalar_one()
    engine.dispose()
    logs = Path(environment["AIRFLOW_HOME"], "logs", f"dag_id={dag_id}", f"run_id={run_id}")
    reports = Path(run_uri(environment["HIPSLAKE_WAREHOUSE"], dag_id, run_id), "reports")
    told, last, happened = [], since, moment(event)
    for name, start, end in found:
        if moment(start) > happened:
            break
        log = logs / f"task_id={name}" / "attempt=1.log"
        lines = [json.loads(line) for line in log.open() if line[0] == "{"]
        report = reports / f"{name}.json"
        said = json.loads(report.read_text()).get("seconds", {}) if report.exists() else {}
        ended = min(moment(end), happened) if name == "publish" else moment(end)
        told.append(TaskSeconds(name, parts(last, moment(start), ended, lines, said)))
        last = ended
    return (happened - since).total_seconds(), told


def parts(
    last: datetime, start: datetime, end: datetime, lines: list[dict[str, Any]], said: Mapping[str, float]
) -> dict[str, float]:
    """Cut the time from the end of the task before to the end of this one at what its log tells.

    Parameters
    ----------
    last, start, end : datetime
        When the task before had ended, and when this one began and ended.
    lines : list of dict
        Its log.
    said : mapping of str to float
        What the report of its step says of its phases, in seconds.
    """
    at = start
    cuts: dict[str, float] = {"scheduler": (start - last).total_seconds()}
    rest = list(lines)
    for name, mark in (
        ("process", _READS),
        ("DAG file", _HAS_READ),
        ("before", _WORKS),
        ("work", _HAS_WORKED),
    ):
        index = next(
            (at for at, line in enumerate(rest) if str(line.get("event", "")).startswith(mark)), None
        )
        then = at if index is None else min(moment(rest[index]["timestamp"]), end)
        rest = rest if index is None else rest[index + 1 :]
        cuts[name] = (then - at).total_seconds()
        at = then
    cuts["after"] = (end - at).total_seconds()
    cuts["Spark"] = 0.0
    if any("Spark-Submit cmd" in str(line.get("event", "")) for line in lines):
        done = sum(seconds for name, seconds in said.items() if name != "session")
        cuts["Spark"], cuts["work"] = max(cuts["work"] - done, 0.0), min(done, cuts["work"])
    return {name: cuts[name] for name in COLUMNS}


def moment(told: datetime | str) -> datetime:
    """Return a time as the database or a log has it; without a zone it is of UTC."""
    found = datetime.fromisoformat(told) if isinstance(told, str) else told
    return found if found.tzinfo else found.replace(tzinfo=UTC)
