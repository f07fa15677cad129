"""Old snapshots of a table go, with their files. Every spec of a sink gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.compaction_spec import COMPACTION
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.yaml_file import find_specs, load_table_spec, spec_type
from hipslake_airflow.documents import vacuum_table_document
from hipslake_airflow.operators.vacuum_table import VacuumTableOperator
from hipslake_airflow.retention_dags import retention_dag
from hipslake_airflow.spec_dags import dags_of
from hipslake_airflow.spec_folders import TABLE_SPECS

PIPELINE = "table_vacuum"


def table_vacuum(spec: TableSpec, path: Path) -> DAG:
    """Return the DAG that vacuums one table."""
    document = vacuum_table_document(spec)
    with retention_dag(
        PIPELINE, spec.name, spec.vacuum, kind="table", document=document, versions="snapshots"
    ) as dag:
        VacuumTableOperator(task_id="vacuum_table", spec_file=str(path))
    return dag


paths = [path for path in find_specs(TABLE_SPECS) if spec_type(path) != COMPACTION]
globals().update(dags_of(PIPELINE, paths, load_table_spec, table_vacuum))
