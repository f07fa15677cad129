"""Rows of a catalog are deleted, by keys, a filter or a region: a DAG per spec of mode append or upsert."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.operators.catalog import DeleteRowsOperator
from hipslake_airflow.params.catalog import delete_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.shared_dags import catalog_dag

NAME = "catalog_delete"


def catalog_delete(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG | None:
    """Return the DAG that deletes rows of one catalog; None where all rows are replaced, or all stay."""
    if not spec.mode.by_intervals or spec.validity is not None:
        return None
    return catalog_dag(
        NAME,
        spec,
        path,
        partial(DeleteRowsOperator, catalog=spec.name),
        description=f"Delete rows of {spec.name}",
        tag="delete",
        params=delete_params(spec),
    )


PIPELINE = SpecPipeline(NAME, CatalogSpec, catalog_delete)
