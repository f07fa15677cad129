"""Partitions of a cube go. One DAG; its form says which."""

from __future__ import annotations

from functools import partial

from hipslake_airflow.operators.cube import RemoveCubePartitionsOperator
from hipslake_airflow.params.cube import remove_partitions_params
from hipslake_airflow.shared_dags import form_pipeline

PIPELINE = form_pipeline(
    "cube_remove_partitions",
    remove_partitions_params,
    partial(RemoveCubePartitionsOperator, task_id="remove"),
    description="Remove partitions of a cube",
    tag="versions",
)
