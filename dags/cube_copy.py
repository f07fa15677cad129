"""A cube is copied. One DAG; its form says which, and to where."""

from __future__ import annotations

from hipslake_airflow.operators.cube import CopyCubeOperator
from hipslake_airflow.params.cube import copy_params
from hipslake_airflow.shared_dags import form_dag

with form_dag("cube_copy", copy_params, description="Copy a cube", tag="versions"):
    CopyCubeOperator(task_id="copy")
