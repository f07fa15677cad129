"""A cube is copied. One DAG; its form says which, and to where."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG
from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.cube_documents import COPY_DOCUMENT
from hipslake_airflow.operators.cube import CopyCubeOperator
from hipslake_airflow.params.cube_upkeep import copy_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_folders import CUBE_SPECS

with DAG(
    dag_id="cube_copy",
    description="Copy a cube",
    doc_md=COPY_DOCUMENT,
    schedule=None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    params=copy_params([path.stem for path in find_specs(CUBE_SPECS)]),
    tags=["hipslake", "cube", "versions"],
    default_args=RETRIES,
):
    CopyCubeOperator(task_id="copy")
