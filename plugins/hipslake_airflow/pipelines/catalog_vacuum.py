"""Old versions of a catalog go, with their files.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from airflow.sdk import DAG
from hipslake.specs.vacuum_spec import VacuumSpec

from hipslake_airflow.operators.catalog import VacuumCatalogOperator
from hipslake_airflow.pipeline import CatalogPipeline
from hipslake_airflow.shared_dags import retention_dag

NAME = "catalog_vacuum"


def catalog_vacuum(name: str, kept: VacuumSpec) -> DAG:
    """Return the DAG that vacuums one catalog."""
    with retention_dag(NAME, name, kept) as dag:
        VacuumCatalogOperator(task_id="vacuum", catalog=name)
    return dag


PIPELINE = CatalogPipeline(NAME, catalog_vacuum)
