"""Old versions of a cube go, with their files. Every spec in include/specs/cubes/ gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.cube import CleanUpCubeOperator
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.shared_dags import retention_dag

NAME = "cube_cleanup"


def cube_cleanup(spec: CubeSpec, _path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that cleans one cube up."""
    with retention_dag(NAME, spec.name, spec.vacuum) as dag:
        CleanUpCubeOperator(task_id="cleanup", cube=spec.name)
    return dag


PIPELINE = SpecPipeline(NAME, CubeSpec, cube_cleanup)
