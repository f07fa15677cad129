"""An older version of a catalog comes back. Every spec in include/specs/catalogs/ gives one DAG."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake_airflow.operators.catalog import RollbackCatalogOperator
from hipslake_airflow.params.catalog import rollback_params
from hipslake_airflow.shared_dags import catalog_dag
from hipslake_airflow.spec_dags import spec_dags

PIPELINE = "catalog_rollback"


def catalog_rollback(spec: CatalogSpec, path: Path) -> DAG:
    """Return the DAG that rolls one catalog back."""
    return catalog_dag(
        PIPELINE,
        spec,
        path,
        partial(RollbackCatalogOperator, catalog=spec.name),
        description=f"Bring an older version of {spec.name} back",
        tag="versions",
        params=rollback_params(),
    )


globals().update(spec_dags(PIPELINE, CatalogSpec, catalog_rollback))
