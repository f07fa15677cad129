"""Runs of DAGs from Airflow's database, and what their steps reported."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import DagRunState, TaskInstanceState
from hipslake.errors import NotReadableError, SpecError
from hipslake.specs.base import Frozen
from hipslake.steps.ingest.resolve import resolve_window
from hipslake.steps.run import Window, run_uri
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from hipslake_airflow.web.pipelines import in_chunks
from hipslake_airflow.web.shown import shown

log = logging.getLogger(__name__)

_REPORTS = "reports"
_NO_REPORT = (FileNotFoundError, NotReadableError, ValueError, TypeError, KeyError, AttributeError)


class RunSummary(Frozen):
    """A run of a DAG."""

    dag_id: str
    run_id: str
    state: str
    run_after: datetime
    start: datetime | None
    end: datetime | None

    @classmethod
    def of(cls, run: DagRun) -> RunSummary:
        """What there is to say of a run."""
        return cls(
            dag_id=run.dag_id,
            run_id=run.run_id,
            state=str(run.state),
            run_after=run.run_after,
            start=run.start_date,
            end=run.end_date,
        )


class StepReport(Frozen):
    """What a step of a run said it did."""

    step: str
    ok: bool
    reused: bool
    error: str | None
    rows_in: int
    rows_out: int
    rows_rejected: int
    rows_superseded: int
    bytes: int
    files: int
    seconds: dict[str, float]  # per phase
    finished: datetime | None


class FailedRun(RunSummary):
    """A run that failed, and why."""

    error: str | None = None


class NightRun(Frozen):
    """A run of an interval of a catalog."""

    dag_id: str
    run_id: str
    number: int  # ascends with time
    state: str
    start: datetime | None
    end: datetime | None
    interval_start: datetime | None
    interval_end: datetime | None
    error: str | None = None

    @classmethod
    def of(cls, run: DagRun) -> NightRun:
        """A run with the interval that it stands for."""
        window = interval_of(run)
        return cls(
            dag_id=run.dag_id,
            run_id=run.run_id,
            number=run.id,
            state=str(run.state),
            start=run.start_date,
            end=run.end_date,
            interval_start=window.start,
            interval_end=window.end,
        )


def interval_of(run: DagRun) -> Window:
    """The interval that a run stands for, as its first step takes it."""
    conf = run.conf if isinstance(run.conf, dict) else {}
    try:
        return resolve_window(
            partition_key=getattr(run, "partition_key", None),
            interval=(run.data_interval_start, run.data_interval_end),
            given=(conf.get("window_start"), conf.get("window_end")),
        )
    except (SpecError, TypeError, ValueError):  # a run that failed at that
        return Window()


def last_failed(dag_ids: Sequence[str], session: Session) -> dict[str, DagRun]:
    """The newest failed run of each DAG that has one, unless a later run made good for it.

    That is a later one that went well, of the same interval; or of any, where the failed one has none.
    """
    found: dict[str, DagRun] = {}
    for some in in_chunks(dag_ids):
        newest = (
            select(func.max(DagRun.id))
            .where(DagRun.dag_id.in_(some), DagRun.state == DagRunState.FAILED)
            .group_by(DagRun.dag_id)
        )
        found |= {run.dag_id: run for run in session.scalars(select(DagRun).where(DagRun.id.in_(newest)))}
    for some in in_chunks(list(found)):
        least = min(found[dag_id].id for dag_id in some)
        later = select(DagRun).where(
            DagRun.dag_id.in_(some), DagRun.state == DagRunState.SUCCESS, DagRun.id > least
        )
        for run in session.scalars(later):
            failed = found.get(run.dag_id)
            if failed is None or run.id < failed.id:
                continue
            start = interval_of(failed).start
            if start is None or interval_of(run).start == start:
                del found[run.dag_id]
    return found


def night_runs(dag_id: str, session: Session, most: int) -> list[NightRun]:
    """The newest runs of a DAG with their intervals, newest first."""
    query = select(DagRun).where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc()).limit(most)
    return [NightRun.of(run) for run in session.scalars(query)]


def failed_tasks(runs: Iterable[tuple[str, str]], session: Session) -> dict[tuple[str, str], list[str]]:
    """The tasks that failed of each run, by DAG and run."""
    found: dict[tuple[str, str], list[str]] = {}
    for dag_id, run_id in runs:
        query = select(TaskInstance.task_id).where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.state == TaskInstanceState.FAILED,
        )
        found[dag_id, run_id] = sorted(session.scalars(query))
    return found


def error_of(warehouse: str, dag_id: str, run_id: str, tasks: Sequence[str]) -> str | None:
    """Why a run failed: what its steps reported, or else which tasks failed."""
    for report in reversed(reports(warehouse, dag_id, run_id)):
        if not report.ok and report.error:
            return shown(f"{report.step}: {report.error}")
    return f"task {', '.join(tasks)} failed" if tasks else None


def last_runs(dag_ids: Iterable[str], session: Session) -> dict[str, RunSummary]:
    """The last run of each DAG that has any, by id."""
    return _newest_runs(dag_ids, session)


def last_good_runs(dag_ids: Iterable[str], session: Session) -> dict[str, RunSummary]:
    """The last run of each DAG that went well, by id."""
    return _newest_runs(dag_ids, session, DagRun.state == DagRunState.SUCCESS)


def _newest_runs(
    dag_ids: Iterable[str], session: Session, *conditions: ColumnElement[bool]
) -> dict[str, RunSummary]:
    found: dict[str, RunSummary] = {}
    for some in in_chunks(tuple(dag_ids)):
        newest = (
            select(func.max(DagRun.id)).where(DagRun.dag_id.in_(some), *conditions).group_by(DagRun.dag_id)
        )
        runs = session.scalars(select(DagRun).where(DagRun.id.in_(newest)))
        found |= {run.dag_id: RunSummary.of(run) for run in runs}
    return found


def runs_of(dag_ids: Iterable[str], session: Session, most: int) -> list[RunSummary]:
    """The newest runs of some DAGs together, newest first."""
    query = select(DagRun).where(DagRun.dag_id.in_(tuple(dag_ids))).order_by(DagRun.id.desc()).limit(most)
    return [RunSummary.of(run) for run in session.scalars(query)]


def has_run(dag_id: str, run_id: str, session: Session) -> bool:
    """Whether Airflow knows the run."""
    query = select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    return session.scalar(query) is not None


def reports(warehouse: str, dag_id: str, run_id: str) -> list[StepReport]:
    """What the steps of a run reported, in the order in which they ended; none where its folder is gone."""
    storage = Storage.at(run_uri(warehouse, dag_id, run_id))
    found = []
    for entry in storage.list(_REPORTS):
        try:
            found.append((_report(plain_json(storage.read(entry.path))), entry.stamp))
        except _NO_REPORT as error:  # being replaced, a pipe, or of another library
            log.warning("%s is no report: %s", storage.uri(entry.path), error)
    # Reports say whole seconds, and quick steps end within one.
    found.sort(key=lambda told: (told[0].finished.isoformat() if told[0].finished else "~", told[1]))
    return [report for report, _ in found]


def _report(told: dict[str, Any]) -> StepReport:
    error = told.get("error")
    return StepReport.model_validate(
        {
            "step": told["step"],
            "ok": told.get("ok", True),
            "reused": told.get("reused", False),
            "error": f"{error['kind']}: {error['message']}" if error else None,
            **{
                name: told.get(name) or 0
                for name in ("rows_in", "rows_out", "rows_rejected", "rows_superseded", "bytes", "files")
            },
            "seconds": told.get("seconds") or {},
            "finished": told.get("finished"),
        }
    )
