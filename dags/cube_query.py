"""Rows of a cube go to a folder of files. One DAG; its form says which rows, and where to."""

from __future__ import annotations

from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.cube_documents import QUERY_DOCUMENT
from hipslake_airflow.operators.cube import QueryCubeOperator
from hipslake_airflow.params.cube import query_params
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.spec_folders import CUBE_SPECS

with pipeline_dag(
    dag_id="cube_query",
    description="Query a cube",
    doc_md=QUERY_DOCUMENT,
    params=query_params([path.stem for path in find_specs(CUBE_SPECS)]),
    tags=["hipslake", "cube", "query"],
):
    QueryCubeOperator(task_id="query")
