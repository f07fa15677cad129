"""Old snapshots of a table go, with their files. Every spec of a sink gives one DAG."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, CronTriggerTimetable
from hipslake.specs.compaction import COMPACTION
from hipslake.specs.table import TableSpec
from hipslake.specs.yaml_file import find_specs, load_table_spec, spec_type
from hipslake_airflow.documents import vacuum_table_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.vacuum_table import VacuumTableOperator
from hipslake_airflow.params.catalog import vacuum_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import dags_of
from hipslake_airflow.spec_folders import TABLE_SPECS

PIPELINE = "table_vacuum"


def table_vacuum(spec: TableSpec, path: Path) -> DAG:
    """Return the DAG that vacuums one table."""
    cron = spec.vacuum.schedule
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Take old snapshots of {spec.table} away",
        doc_md=vacuum_table_document(spec),
        schedule=CronTriggerTimetable(cron, timezone="UTC") if cron else None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=vacuum_params(spec.vacuum, "snapshots"),
        tags=["hipslake", "table", "versions"],
        default_args=RETRIES,
    ) as dag:
        VacuumTableOperator(task_id="vacuum_table", spec_file=str(path))
    return dag


paths = [path for path in find_specs(TABLE_SPECS) if spec_type(path) != COMPACTION]
globals().update(dags_of(PIPELINE, paths, load_table_spec, table_vacuum))
