"""Old snapshots or versions of a table go, with their files. Every spec of a sink gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.spec_folder import SpecFolder
from hipslake.specs.table_place import SunkFormat
from hipslake.specs.table_spec import TableSpec

from hipslake_airflow.operators.table import VacuumTableOperator
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.shared_dags import retention_dag

NAME = "table_vacuum"


def table_vacuum(spec: TableSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that vacuums one table."""
    versions = "versions" if spec.format is SunkFormat.DELTA else "snapshots"
    with retention_dag(NAME, spec.name, spec.vacuum, table=spec.table, versions=versions) as dag:
        VacuumTableOperator(task_id="vacuum_table", spec_file=str(path))
    return dag


PIPELINE = SpecPipeline(NAME, TableSpec, table_vacuum)
