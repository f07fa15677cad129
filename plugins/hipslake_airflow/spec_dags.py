"""A pipeline's DAGs: one per spec file that it is for, or per catalog that specs lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from airflow.sdk import DAG
from hipslake.errors import SpecError
from hipslake.specs.base import NamedSpec
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec, JoinSpec
from hipslake.specs.vacuum_spec import VacuumSpec
from hipslake.specs.yaml_file import load_spec

from hipslake_airflow.alerts import alert
from hipslake_airflow.invalid_specs import invalid_spec_dag
from hipslake_airflow.retries import with_task_limit
from hipslake_airflow.spec_folders import spec_files

Spec = TypeVar("Spec", bound=NamedSpec)


def spec_dags(pipeline: str, model: type[Spec], build: Callable[[Spec, Path], DAG | None]) -> dict[str, DAG]:
    """Return the DAGs of a pipeline by id; a spec that cannot be read gives one that says so.

    Parameters
    ----------
    pipeline : str
        The first part of the ids.
    model : type
        The kind of spec that the pipeline is for.
    build : callable
        Makes the DAG of a spec, or None where the pipeline is not for it; takes the spec and its path.
    """
    dags = {}
    for path in spec_files(model):
        try:
            spec = load_spec(path, model)
            dag = build(spec, path)
            if dag is not None:
                alert(with_task_limit(dag, spec.task_hours), spec.deadline_minutes)
        except Exception as error:  # whatever is wrong with one spec must not take the others' DAGs down
            dag = alert(invalid_spec_dag(pipeline, path, error))
        if dag is not None:
            dags[dag.dag_id] = dag
    return dags


def dags_of_all_catalogs(pipeline: str, build: Callable[[str, VacuumSpec], DAG]) -> dict[str, DAG]:
    """Return the DAGs of a pipeline that is for every catalog, also those of joins and of cubes, by id.

    Parameters
    ----------
    pipeline : str
        The first part of the ids.
    build : callable
        Makes the DAG of a catalog; takes its name, and how long its versions stay.
    """
    derived = [build(name, kept) for name, kept in _derived_catalogs()]
    named = spec_dags(pipeline, CatalogSpec, lambda spec, _: build(spec.name, spec.vacuum))
    return {dag.dag_id: dag for dag in derived} | named


def _derived_catalogs() -> Iterator[tuple[str, VacuumSpec]]:
    """Name the catalogs of joins, and of the joined rows of cubes; specs that cannot be read give none."""
    kinds: tuple[type[JoinSpec], ...] = (CrossmatchSpec, EquijoinSpec)
    for model in kinds:
        for path in spec_files(model):
            with suppress(SpecError):
                join = load_spec(path, model)
                yield join.name, join.vacuum
    for path in spec_files(CubeSpec):
        with suppress(SpecError):
            joined = load_spec(path, CubeSpec).materialise
            if joined is not None and joined.name is not None:
                yield joined.name, joined.vacuum
