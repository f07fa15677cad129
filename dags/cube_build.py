"""Cubes are built from their specs: a DAG for every file in include/specs/cubes/, run by hand."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.cube_spec import CubeSpec
from hipslake_airflow.cube_pipeline import cube_dag
from hipslake_airflow.params.cube import build_params
from hipslake_airflow.spec_dags import spec_dags

PIPELINE = "cube_build"


def cube_build(spec: CubeSpec, path: Path) -> DAG:
    """Return the DAG that builds one cube."""
    return cube_dag(PIPELINE, spec, path, params=build_params(spec))


globals().update(spec_dags(PIPELINE, CubeSpec, cube_build))
