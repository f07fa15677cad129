"""Rows of a cube go to a folder of files. One DAG; its form says which rows, and where to."""

from __future__ import annotations

from hipslake_airflow.operators.cube import QueryCubeOperator
from hipslake_airflow.params.cube import query_params
from hipslake_airflow.shared_dags import form_dag

with form_dag("cube_query", query_params, description="Query a cube", tag="query"):
    QueryCubeOperator(task_id="query")
