"""Old versions of a catalog go, with their files.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from airflow.sdk import DAG

from hipslake_airflow.operators.catalog import VacuumCatalogOperator
from hipslake_airflow.pipeline import CatalogPipeline, CatalogToKeep
from hipslake_airflow.shared_dags import retention_dag

NAME = "catalog_vacuum"


def catalog_vacuum(catalog: CatalogToKeep) -> DAG:
    """Return the DAG that vacuums one catalog."""
    with retention_dag(NAME, catalog.name, catalog.vacuum) as dag:
        VacuumCatalogOperator(task_id="vacuum", catalog=catalog.name)
    return dag


PIPELINE = CatalogPipeline(NAME, catalog_vacuum)
