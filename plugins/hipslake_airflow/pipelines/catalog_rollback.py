"""An older version of a catalog comes back. Every spec in include/specs/catalogs/ gives one DAG."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.catalog import RollbackCatalogOperator
from hipslake_airflow.params.catalog import rollback_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.shared_dags import catalog_dag

NAME = "catalog_rollback"


def catalog_rollback(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that rolls one catalog back."""
    return catalog_dag(
        NAME,
        spec,
        path,
        partial(RollbackCatalogOperator, catalog=spec.name),
        description=f"Bring an older version of {spec.name} back",
        tag="versions",
        params=rollback_params(spec.name),
    )


PIPELINE = SpecPipeline(NAME, CatalogSpec, catalog_rollback)
