"""Old versions of a cube go, with their files. Every spec in include/specs/cubes/ gives one DAG."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, CronTriggerTimetable
from hipslake.specs.cube import CubeSpec
from hipslake_airflow.cube_documents import cleanup_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.cube_upkeep import CleanUpCubeOperator
from hipslake_airflow.params.catalog import vacuum_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import cube_dags
from hipslake_airflow.spec_folders import CUBE_SPECS

PIPELINE = "cube_cleanup"


def cube_cleanup(spec: CubeSpec, path: Path) -> DAG:
    """Return the DAG that cleans one cube up."""
    cron = spec.vacuum.schedule
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Take old versions of {spec.name} away",
        doc_md=cleanup_document(spec),
        schedule=CronTriggerTimetable(cron, timezone="UTC") if cron else None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=vacuum_params(spec.vacuum),
        tags=["hipslake", "cube", "versions"],
        default_args=RETRIES,
    ) as dag:
        CleanUpCubeOperator(task_id="cleanup", cube=spec.name)
    return dag


globals().update(cube_dags(PIPELINE, CUBE_SPECS, cube_cleanup))
