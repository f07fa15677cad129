"""Old versions of a cube go, with their files. Every spec in include/specs/cubes/ gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.cube_spec import CubeSpec
from hipslake_airflow.operators.cube import CleanUpCubeOperator
from hipslake_airflow.shared_dags import retention_dag
from hipslake_airflow.spec_dags import spec_dags

PIPELINE = "cube_cleanup"


def cube_cleanup(spec: CubeSpec, _path: Path) -> DAG:
    """Return the DAG that cleans one cube up."""
    with retention_dag(PIPELINE, spec.name, spec.vacuum) as dag:
        CleanUpCubeOperator(task_id="cleanup", cube=spec.name)
    return dag


globals().update(spec_dags(PIPELINE, CubeSpec, cube_cleanup))
