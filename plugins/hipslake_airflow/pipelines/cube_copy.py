"""A cube is copied. One DAG; its form says which, and to where."""

from __future__ import annotations

from functools import partial

from hipslake_airflow.operators.cube import CopyCubeOperator
from hipslake_airflow.params.cube import copy_params
from hipslake_airflow.shared_dags import form_pipeline

PIPELINE = form_pipeline(
    "cube_copy",
    copy_params,
    partial(CopyCubeOperator, task_id="copy"),
    description="Copy a cube",
    tag="versions",
)
