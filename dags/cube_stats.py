"""What a cube weighs. One DAG; its form says which."""

from __future__ import annotations

from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.cube_documents import STATS_DOCUMENT
from hipslake_airflow.operators.cube import CubeStatsOperator
from hipslake_airflow.params.cube import stats_params
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.spec_folders import CUBE_SPECS

with pipeline_dag(
    dag_id="cube_stats",
    description="Say what the datasets of a cube weigh",
    doc_md=STATS_DOCUMENT,
    params=stats_params([path.stem for path in find_specs(CUBE_SPECS)]),
    tags=["hipslake", "cube", "versions"],
):
    CubeStatsOperator(task_id="weigh")
