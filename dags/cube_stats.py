"""What a cube weighs. One DAG; its form says which."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG
from hipslake.specs.yaml_file import find_specs
from hipslake_airflow.cube_documents import STATS_DOCUMENT
from hipslake_airflow.operators.cube import CubeStatsOperator
from hipslake_airflow.params.cube_upkeep import stats_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_folders import CUBE_SPECS

with DAG(
    dag_id="cube_stats",
    description="Say what the datasets of a cube weigh",
    doc_md=STATS_DOCUMENT,
    schedule=None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    params=stats_params([path.stem for path in find_specs(CUBE_SPECS)]),
    tags=["hipslake", "cube", "versions"],
    default_args=RETRIES,
):
    CubeStatsOperator(task_id="weigh")
