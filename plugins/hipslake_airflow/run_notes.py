"""Notes on runs, which Airflow's UI shows beside their state: which night it is, and that one did nothing.

Airflow calls a run a success whose tasks were skipped, and names those of a backfill by the end of their
interval. Its scheduler tells this listener of each run that starts or has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

_PACKAGE = __name__.partition(".")[0]
_TAG = "hipslake"
_SKIPPED = {
    "wait": "no file came, so nothing was added",
    "watch": "nothing had come or changed",
    "inputs": "there was nothing new to add",
    "drain": "no rows had come",
    "append": "there was nothing to add",
    "sink": "the table had these rows already",
    "resolve": "what it is made of is not there yet",
    "build": "there was nothing to do",
    "compact": "there was nothing to compact",
    "delete": "no row was left to delete",
    "delete_table": "no row was left to delete",
    "margin": "these margins are there already",
}
"""What it means that a task was skipped by itself, by its id; others are skipped for the sake of these."""


_MARKS = ("Skipped", "The night of ", "The interval from ")
"""How our notes begin; what else somebody has noted is left alone."""


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """Note on a run of a backfill of ours of which night it is; ids of other runs say it."""
    what = _of_what(dag_run)
    if what and dag_run.run_type == "backfill" and _is_ours(dag_run):
        _note(dag_run, f"{what[0].upper()}{what[1:]}.")


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """Note on a run of ours in which a task was skipped what that means."""
    if not _is_ours(dag_run):
        return
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:  # as in `airflow dags test`, which tells it at its end
        return
    tasks = dag_run.get_task_instances(session=session)
    skipped = {task.task_id for task in tasks if task.state == "skipped"}
    published = any(task.task_id == "audit" and task.state == "success" for task in tasks)
    why = next((text for task_id, text in _SKIPPED.items() if task_id in skipped and not published), None)
    what = _of_what(dag_run)
    if why is not None:
        _note(dag_run, f"Skipped{what and ', '}{what}: {why}.")
    elif (dag_run.note or "").startswith("Skipped"):  # it was cleared since
        _note(dag_run, None)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Take the note that it was skipped off a run that was cleared and has failed."""
    if _is_ours(dag_run) and (dag_run.note or "").startswith("Skipped"):
        _note(dag_run, None)


def _note(dag_run: DagRun, text: str | None) -> None:
    if dag_run.note and not dag_run.note.startswith(_MARKS):
        return
    if text is None:
        dag_run.dag_run_note = None
    else:
        dag_run.note = text


def _is_ours(dag_run: DagRun) -> bool:
    dag: Any = getattr(dag_run, "dag", None)
    return dag is not None and _TAG in (dag.tags or ())


def _of_what(dag_run: DagRun) -> str:
    start = dag_run.data_interval_start
    if start is None or dag_run.run_type == "manual":
        return ""
    if f"{start:%H:%M:%S}" == "00:00:00":
        return f"the night of {start:%Y-%m-%d}"
    return f"the interval from {start:%Y-%m-%d %H:%M} on"
