"""A published catalog is read back, and held against what was written.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.catalog import VerifyPublishedOperator
from hipslake_airflow.params.catalog import verify_params
from hipslake_airflow.pipeline import CatalogPipeline, CatalogToKeep
from hipslake_airflow.shared_dags import catalog_dag, published_dag

NAME = "catalog_verify"


def catalog_verify(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that verifies what the catalog of a spec has published."""
    return catalog_dag(NAME, spec, path, VerifyPublishedOperator, **_facts(spec.name))


def derived_verify(catalog: CatalogToKeep) -> DAG:
    """Return the DAG that verifies what is published of a catalog that comes of others."""
    return published_dag(NAME, catalog.name, VerifyPublishedOperator, **_facts(catalog.name))


def _facts(name: str) -> dict[str, Any]:
    return {
        "description": f"Verify what is published of {name}",
        "tag": "versions",
        "params": verify_params(),
        "commits": False,
    }


PIPELINE = CatalogPipeline(NAME, derived_verify, catalog_verify)
