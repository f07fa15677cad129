"""Old versions of a cube go, with their files. Every spec in include/specs/cubes/ gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.cube_spec import CubeSpec
from hipslake_airflow.cube_documents import cleanup_document
from hipslake_airflow.operators.retention import CleanUpCubeOperator
from hipslake_airflow.retention_dags import retention_dag
from hipslake_airflow.spec_dags import cube_dags
from hipslake_airflow.spec_folders import CUBE_SPECS

PIPELINE = "cube_cleanup"


def cube_cleanup(spec: CubeSpec, path: Path) -> DAG:
    """Return the DAG that cleans one cube up."""
    with retention_dag(PIPELINE, spec.name, spec.vacuum, kind="cube", document=cleanup_document(spec)) as dag:
        CleanUpCubeOperator(task_id="cleanup", cube=spec.name)
    return dag


globals().update(cube_dags(PIPELINE, CUBE_SPECS, cube_cleanup))
