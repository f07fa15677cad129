"""Old versions of a catalog go, with their files.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from airflow.sdk import DAG
from hipslake.specs.vacuum_spec import VacuumSpec
from hipslake_airflow.operators.catalog import VacuumCatalogOperator
from hipslake_airflow.shared_dags import retention_dag
from hipslake_airflow.spec_dags import dags_of_all_catalogs

PIPELINE = "catalog_vacuum"


def catalog_vacuum(name: str, kept: VacuumSpec) -> DAG:
    """Return the DAG that vacuums one catalog."""
    with retention_dag(PIPELINE, name, kept) as dag:
        VacuumCatalogOperator(task_id="vacuum", catalog=name)
    return dag


globals().update(dags_of_all_catalogs(PIPELINE, catalog_vacuum))
