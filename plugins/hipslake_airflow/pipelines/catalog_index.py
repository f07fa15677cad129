"""The indices of a published version are brought up to date: a DAG per spec that asks for any."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.catalog import BuildIndexOperator
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.shared_dags import catalog_dag

NAME = "catalog_index"


def catalog_index(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG | None:
    """Return the DAG that indexes one catalog, or None where the spec asks for no index."""
    if not spec.index:
        return None
    step = partial(BuildIndexOperator, published=True)
    return catalog_dag(NAME, spec, path, step, description=f"Index {spec.name}", tag="index")


PIPELINE = SpecPipeline(NAME, CatalogSpec, catalog_index)
