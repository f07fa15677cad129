"""A published catalog gets margins that its spec did not ask for. Every spec gives one DAG."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.catalog import BuildMarginOperator
from hipslake_airflow.params.catalog import margin_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.shared_dags import catalog_dag

NAME = "catalog_margin"


def catalog_margin(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that adds margins to the newest version of one catalog."""
    return catalog_dag(
        NAME,
        spec,
        path,
        partial(BuildMarginOperator, published=True),
        description=f"Add margins to {spec.name}",
        tag="margin",
        params=margin_params(spec),
    )


PIPELINE = SpecPipeline(NAME, CatalogSpec, catalog_margin)
