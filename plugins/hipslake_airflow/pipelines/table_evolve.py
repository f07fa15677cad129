"""A table is changed as its spec asks: columns, types, partitions. Every spec of a sink gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.spec_folder import SpecFolder
from hipslake.specs.table_spec import TableSpec

from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.operators.table import EvolveTableOperator
from hipslake_airflow.params.tables import evolve_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.retries import pipeline_dag

NAME = "table_evolve"


def table_evolve(spec: TableSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that changes one table."""
    with pipeline_dag(
        dag_id=dag_id_of(NAME, path),
        description=f"Change {spec.table} as its spec asks",
        doc_md=document(NAME, spec=spec),
        max_active_runs=1,
        params=evolve_params(spec),
        tags=["hipslake", "table", "evolve"],
    ) as dag:
        EvolveTableOperator(task_id="evolve_table", spec_file=str(path))
    return dag


PIPELINE = SpecPipeline(NAME, TableSpec, table_evolve)
