"""Cubes follow their datasets: a DAG for every file in include/specs/cubes/, scheduled on their assets."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.cube_spec import CubeSpec
from hipslake_airflow.cube_documents import cube_align_document
from hipslake_airflow.cube_pipeline import cube_dag, news_of
from hipslake_airflow.params.cubes import align_params
from hipslake_airflow.schedules import schedule_of
from hipslake_airflow.spec_dags import cube_dags
from hipslake_airflow.spec_folders import CUBE_SPECS, TABLE_SPECS

PIPELINE = "cube_align"


def cube_align(spec: CubeSpec, path: Path) -> DAG:
    """Return the DAG that keeps one cube as its datasets are."""
    return cube_dag(
        PIPELINE,
        spec,
        path,
        document=cube_align_document(spec, path),
        params=align_params(spec),
        schedule=schedule_of(spec.schedule, news_of(spec, TABLE_SPECS)),
    )


globals().update(cube_dags(PIPELINE, CUBE_SPECS, cube_align))
