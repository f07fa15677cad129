"""Rows of a catalog are given to other objects: a DAG per spec of mode upsert."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec, Mode
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.catalog import ReassignRowsOperator
from hipslake_airflow.params.catalog import reassign_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.shared_dags import catalog_dag

NAME = "catalog_reassign"


def catalog_reassign(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG | None:
    """Return the DAG that gives rows to other objects; None where rows have no key, or all of them stay."""
    if spec.mode is not Mode.UPSERT or spec.validity is not None:
        return None
    return catalog_dag(
        NAME,
        spec,
        path,
        partial(ReassignRowsOperator, catalog=spec.name),
        description=f"Give rows of {spec.name} to other objects",
        tag="reassign",
        params=reassign_params(spec),
    )


PIPELINE = SpecPipeline(NAME, CatalogSpec, catalog_reassign)
