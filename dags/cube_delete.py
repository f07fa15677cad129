"""Datasets of a cube go, or all of it. One DAG; its form asks for the name once more."""

from __future__ import annotations

from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.cube_documents import DELETE_DOCUMENT
from hipslake_airflow.operators.cube import DeleteCubeOperator
from hipslake_airflow.params.cube import delete_params
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.spec_folders import CUBE_SPECS

with pipeline_dag(
    dag_id="cube_delete",
    description="Delete a cube, or some of its datasets",
    doc_md=DELETE_DOCUMENT,
    params=delete_params([path.stem for path in find_specs(CUBE_SPECS)]),
    tags=["hipslake", "cube", "versions"],
):
    DeleteCubeOperator(task_id="delete")
