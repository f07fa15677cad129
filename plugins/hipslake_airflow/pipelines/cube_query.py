"""Rows of a cube go to a folder of files. One DAG; its form says which rows, and where to."""

from __future__ import annotations

from functools import partial

from hipslake_airflow.operators.cube import QueryCubeOperator
from hipslake_airflow.params.cube import query_params
from hipslake_airflow.shared_dags import form_pipeline

PIPELINE = form_pipeline(
    "cube_query",
    query_params,
    partial(QueryCubeOperator, task_id="query"),
    description="Query a cube",
    tag="query",
)
