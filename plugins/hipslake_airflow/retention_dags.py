"""The DAG that takes old versions away, of a catalog, a cube or a table; its file adds the task."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, CronTriggerTimetable
from hipslake.specs.vacuum_spec import VacuumSpec

from hipslake_airflow.params.catalog import vacuum_params
from hipslake_airflow.retries import RETRIES


def retention_dag(
    pipeline: str, name: str, kept: VacuumSpec, *, kind: str, document: str, versions: str = "versions"
) -> DAG:
    """Return the DAG, still without its task.

    Parameters
    ----------
    pipeline : str
    name : str
        The DAG is `<pipeline>__<name>`.
    kept : VacuumSpec
        What the spec says about it.
    kind : str
        What it is, as a tag.
    document : str
        What the UI shows about it, in Markdown.
    versions : str
        What goes: versions, or the snapshots of a table.
    """
    return DAG(
        dag_id=f"{pipeline}__{name}",
        description=f"Take old {versions} of {name} away",
        doc_md=document,
        schedule=CronTriggerTimetable(kept.schedule, timezone="UTC") if kept.schedule else None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=vacuum_params(kept, versions),
        tags=["hipslake", kind, "versions"],
        default_args=RETRIES,
    )
