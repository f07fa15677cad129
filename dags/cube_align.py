"""Cubes follow their datasets: a DAG for every file in include/specs/cubes/, scheduled on their assets."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.cube_spec import CubeSpec
from hipslake_airflow.cube_pipeline import cube_dag, news_of
from hipslake_airflow.params.cube import align_params
from hipslake_airflow.schedules import schedule_of
from hipslake_airflow.spec_dags import spec_dags

PIPELINE = "cube_align"


def cube_align(spec: CubeSpec, path: Path) -> DAG:
    """Return the DAG that keeps one cube as its datasets are."""
    schedule = schedule_of(spec.schedule, news_of(spec))
    return cube_dag(PIPELINE, spec, path, params=align_params(spec), schedule=schedule)


globals().update(spec_dags(PIPELINE, CubeSpec, cube_align))
