"""What a cube weighs. One DAG; its form says which."""

from __future__ import annotations

from functools import partial

from hipslake_airflow.operators.cube import CubeStatsOperator
from hipslake_airflow.params.cube import stats_params
from hipslake_airflow.shared_dags import form_pipeline

PIPELINE = form_pipeline(
    "cube_stats",
    stats_params,
    partial(CubeStatsOperator, task_id="weigh"),
    description="Say what the datasets of a cube weigh",
    tag="versions",
)
