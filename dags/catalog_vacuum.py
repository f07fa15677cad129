"""Old versions of a catalog go, with their files. Every spec in include/specs/catalogs/ gives one DAG."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog import CatalogSpec
from hipslake_airflow.documents import vacuum_document
from hipslake_airflow.operators.retention import VacuumCatalogOperator
from hipslake_airflow.retention_dags import retention_dag
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS

PIPELINE = "catalog_vacuum"


def catalog_vacuum(spec: CatalogSpec, path: Path) -> DAG:
    """Return the DAG that vacuums one catalog."""
    with retention_dag(PIPELINE, spec, path, kind="catalog", document=vacuum_document(spec)) as dag:
        VacuumCatalogOperator(task_id="vacuum", catalog=spec.name)
    return dag


globals().update(spec_dags(PIPELINE, CATALOG_SPECS, catalog_vacuum))
