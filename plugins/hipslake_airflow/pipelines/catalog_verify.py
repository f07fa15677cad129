"""A published catalog is read back, and held against what was written: a DAG per spec."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.catalog import VerifyPublishedOperator
from hipslake_airflow.params.catalog import verify_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.shared_dags import catalog_dag

NAME = "catalog_verify"


def catalog_verify(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that verifies what one catalog has published."""
    return catalog_dag(
        NAME,
        spec,
        path,
        VerifyPublishedOperator,
        description=f"Verify what is published of {spec.name}",
        tag="versions",
        params=verify_params(),
        commits=False,
    )


PIPELINE = SpecPipeline(NAME, CatalogSpec, catalog_verify)
