"""Cubes follow their datasets: a DAG for every file in include/specs/cubes/, scheduled on their assets."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.cube_pipeline import cube_dag, news_of
from hipslake_airflow.params.cube import align_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.schedules import schedule_of

NAME = "cube_align"


def cube_align(spec: CubeSpec, path: Path, specs: SpecFolder) -> DAG:
    """Return the DAG that keeps one cube as its datasets are."""
    schedule = schedule_of(spec.schedule, news_of(spec, specs))
    return cube_dag(NAME, spec, path, params=align_params(spec), schedule=schedule)


PIPELINE = SpecPipeline(NAME, CubeSpec, cube_align)
