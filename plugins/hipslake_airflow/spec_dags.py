"""A pipeline's DAGs: one per spec file that it is for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog import CatalogSpec
from hipslake.specs.yaml_file import find_specs, load_catalog_spec

from hipslake_airflow.invalid_specs import invalid_spec_dag


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
    dags = {}
    for path in find_specs(folder):
        try:
            dag = build(load_catalog_spec(path), path)
        except Exception as error:  # whatever is wrong with one spec must not take the others' DAGs down
            dag = invalid_spec_dag(pipeline, path, error)
        if dag is not None:
            dags[dag.dag_id] = dag
    return dags
