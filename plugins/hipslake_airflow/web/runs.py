"""Runs of DAGs from Airflow's database, and what their steps reported."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from airflow.models.dagrun import DagRun
from hipslake.errors import NotReadableError
from hipslake.specs.base import Frozen
from hipslake.steps.run import run_uri
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json
from sqlalchemy import func, select
from sqlalchemy.orm import Session

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
    bytes: int
    files: int
    seconds: dict[str, float]  # per phase
    finished: datetime | None


def last_runs(dag_ids: Iterable[str], session: Session) -> dict[str, RunSummary]:
    """The last run of each DAG that has any, by id."""
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(tuple(dag_ids))).group_by(DagRun.dag_id)
    runs = session.scalars(select(DagRun).where(DagRun.id.in_(newest)))
    return {run.dag_id: RunSummary.of(run) for run in runs}


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
                for name in ("rows_in", "rows_out", "rows_rejected", "bytes", "files")
            },
            "seconds": told.get("seconds") or {},
            "finished": told.get("finished"),
        }
    )
