"""Datasets of a cube go, or all of it. One DAG; its form asks for the name once more."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG
from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.cube_documents import DELETE_DOCUMENT
from hipslake_airflow.operators.cube import DeleteCubeOperator
from hipslake_airflow.params.cube_upkeep import delete_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_folders import CUBE_SPECS

with DAG(
    dag_id="cube_delete",
    description="Delete a cube, or some of its datasets",
    doc_md=DELETE_DOCUMENT,
    schedule=None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    params=delete_params([path.stem for path in find_specs(CUBE_SPECS)]),
    tags=["hipslake", "cube", "versions"],
    default_args=RETRIES,
):
    DeleteCubeOperator(task_id="delete")
