"""Rows of a table are deleted, by keys or a filter. Every spec of a sink gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.spec_folder import SpecFolder
from hipslake.specs.table_spec import TableSpec

from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.operators.table import DeleteTableRowsOperator
from hipslake_airflow.params.tables import table_delete_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.retries import pipeline_dag

NAME = "table_delete"


def table_delete(spec: TableSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that deletes rows of one table."""
    with pipeline_dag(
        dag_id=dag_id_of(NAME, path),
        description=f"Delete rows of {spec.table}",
        doc_md=document(NAME, spec=spec),
        max_active_runs=1,
        params=table_delete_params(spec),
        tags=["hipslake", "table", "delete"],
    ) as dag:
        DeleteTableRowsOperator(task_id="delete_table", spec_file=str(path), table=spec.name)
    return dag


PIPELINE = SpecPipeline(NAME, TableSpec, table_delete)
