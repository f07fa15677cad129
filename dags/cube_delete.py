"""Datasets of a cube go, or all of it. One DAG; its form asks for the name once more."""

from __future__ import annotations

from hipslake_airflow.operators.cube import DeleteCubeOperator
from hipslake_airflow.params.cube import delete_params
from hipslake_airflow.shared_dags import form_dag

with form_dag(
    "cube_delete", delete_params, description="Delete a cube, or some of its datasets", tag="versions"
):
    DeleteCubeOperator(task_id="delete")
