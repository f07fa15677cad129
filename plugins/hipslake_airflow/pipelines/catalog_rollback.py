"""An older version of a catalog comes back.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.catalog import RollbackCatalogOperator
from hipslake_airflow.params.catalog import rollback_params
from hipslake_airflow.pipeline import CatalogPipeline, CatalogToKeep
from hipslake_airflow.shared_dags import catalog_dag, published_dag

NAME = "catalog_rollback"


def catalog_rollback(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that rolls the catalog of a spec back."""
    return catalog_dag(NAME, spec, path, _step(spec.name), **_facts(spec.name))


def derived_rollback(catalog: CatalogToKeep) -> DAG:
    """Return the DAG that rolls a catalog back that comes of others."""
    return published_dag(NAME, catalog.name, _step(catalog.name), **_facts(catalog.name))


def _step(name: str) -> partial[RollbackCatalogOperator]:
    return partial(RollbackCatalogOperator, catalog=name)


def _facts(name: str) -> dict[str, Any]:
    return {
        "description": f"Bring an older version of {name} back",
        "tag": "versions",
        "params": rollback_params(name),
    }


PIPELINE = CatalogPipeline(NAME, derived_rollback, catalog_rollback)
