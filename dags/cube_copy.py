"""A cube is copied. One DAG; its form says which, and to where."""

from __future__ import annotations

from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.cube_documents import COPY_DOCUMENT
from hipslake_airflow.operators.cube import CopyCubeOperator
from hipslake_airflow.params.cube import copy_params
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.spec_folders import CUBE_SPECS

with pipeline_dag(
    dag_id="cube_copy",
    description="Copy a cube",
    doc_md=COPY_DOCUMENT,
    params=copy_params([path.stem for path in find_specs(CUBE_SPECS)]),
    tags=["hipslake", "cube", "versions"],
):
    CopyCubeOperator(task_id="copy")
