"""Old snapshots of a table go, with their files. Every spec of a sink gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.table_spec import TableSpec
from hipslake_airflow.operators.table import VacuumTableOperator
from hipslake_airflow.shared_dags import retention_dag
from hipslake_airflow.spec_dags import spec_dags

PIPELINE = "table_vacuum"


def table_vacuum(spec: TableSpec, path: Path) -> DAG:
    """Return the DAG that vacuums one table."""
    with retention_dag(PIPELINE, spec.name, spec.vacuum, table=spec.table, versions="snapshots") as dag:
        VacuumTableOperator(task_id="vacuum_table", spec_file=str(path))
    return dag


globals().update(spec_dags(PIPELINE, TableSpec, table_vacuum))
