"""The DAG that takes old versions away, of a catalog or of a cube; its file adds the task."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, CronTriggerTimetable
from hipslake.specs.catalog import CatalogSpec
from hipslake.specs.cube import CubeSpec

from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.params.catalog import vacuum_params
from hipslake_airflow.retries import RETRIES


def retention_dag(
    pipeline: str, spec: CatalogSpec | CubeSpec, path: Path, *, kind: str, document: str
) -> DAG:
    """Return the DAG, still without its task.

    Parameters
    ----------
    pipeline : str
        The DAG is `<pipeline>__<name of the spec>`.
    spec : CatalogSpec or CubeSpec
    path : Path
        Its file.
    kind : str
        What it is a spec of, as a tag.
    document : str
        What the UI shows about it, in Markdown.
    """
    cron = spec.vacuum.schedule
    return DAG(
        dag_id=dag_id_of(pipeline, path),
        description=f"Take old versions of {spec.name} away",
        doc_md=document,
        schedule=CronTriggerTimetable(cron, timezone="UTC") if cron else None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=vacuum_params(spec),
        tags=["hipslake", kind, "versions"],
        default_args=RETRIES,
    )
