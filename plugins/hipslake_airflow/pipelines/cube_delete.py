"""Datasets of a cube go, or all of it. One DAG; its form asks for the name once more."""

from __future__ import annotations

from functools import partial

from hipslake_airflow.operators.cube import DeleteCubeOperator
from hipslake_airflow.params.cube import delete_params
from hipslake_airflow.shared_dags import form_pipeline

PIPELINE = form_pipeline(
    "cube_delete",
    delete_params,
    partial(DeleteCubeOperator, task_id="delete"),
    description="Delete a cube, or some of its datasets",
    tag="versions",
)
