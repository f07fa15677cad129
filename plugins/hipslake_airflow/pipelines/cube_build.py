"""Cubes are built from their specs: a DAG for every file in include/specs/cubes/, run by hand."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.cube_pipeline import cube_dag
from hipslake_airflow.params.cube import build_params
from hipslake_airflow.pipeline import SpecPipeline

NAME = "cube_build"


def cube_build(spec: CubeSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that builds one cube."""
    return cube_dag(NAME, spec, path, params=build_params(spec))


PIPELINE = SpecPipeline(NAME, CubeSpec, cube_build)
