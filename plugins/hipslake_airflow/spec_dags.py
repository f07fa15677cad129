"""A pipeline's DAGs: one per spec file that it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from airflow.sdk import DAG
from hipslake.specs.base import NamedSpec
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.yaml_file import find_specs, load_catalog_spec, load_cube_spec

from hipslake_airflow.alerts import alert
from hipslake_airflow.invalid_specs import invalid_spec_dag
from hipslake_airflow.retries import with_task_limit

Spec = TypeVar("Spec", bound=NamedSpec | CubeSpec)


def spec_dags(
    pipeline: str, folder: Path, build: Callable[[CatalogSpec, Path], DAG | None]
) -> dict[str, DAG]:
    """Return the DAGs of a pipeline by id; a spec that cannot be read gives one that says so.

    Parameters
    ----------
    pipeline : str
        The first part of the ids.
    folder : Path
        The folder of the catalog specs.
    build : callable
        Makes the DAG of a spec, or None where the pipeline is not for it; takes the spec and its path.
    """
    return dags_of(pipeline, find_specs(folder), load_catalog_spec, build)


def cube_dags(pipeline: str, folder: Path, build: Callable[[CubeSpec, Path], DAG | None]) -> dict[str, DAG]:
    """Return the DAGs of a pipeline by id, one per cube spec of a folder; as `spec_dags`."""
    return dags_of(pipeline, find_specs(folder), load_cube_spec, build)


def dags_of(
    pipeline: str,
    paths: Iterable[Path],
    load: Callable[[Path], Spec],
    build: Callable[[Spec, Path], DAG | None],
) -> dict[str, DAG]:
    """Return the DAGs of some spec files by id, as `spec_dags` does for a folder of catalog specs.

    Parameters
    ----------
    pipeline : str
    paths : iterable of Path
    load : callable
        Reads a spec.
    build : callable
        Makes the DAG of a spec, or None; takes the spec and its path.
    """
    dags = {}
    for path in paths:
        try:
            spec = load(path)
            dag = build(spec, path)
            if dag is not None:
                alert(with_task_limit(dag, spec.task_hours), spec.deadline_minutes)
        except Exception as error:  # whatever is wrong with one spec must not take the others' DAGs down
            dag = alert(invalid_spec_dag(pipeline, path, error))
        if dag is not None:
            dags[dag.dag_id] = dag
    return dags
