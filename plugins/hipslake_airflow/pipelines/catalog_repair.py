"""What other files of a catalog say is written anew where it was damaged.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from airflow.sdk import DAG

from hipslake_airflow.documents import document
from hipslake_airflow.operators.catalog import RepairCatalogOperator
from hipslake_airflow.params.catalog import repair_params
from hipslake_airflow.pipeline import CatalogPipeline, CatalogToKeep
from hipslake_airflow.retries import pipeline_dag

NAME = "catalog_repair"


def catalog_repair(catalog: CatalogToKeep) -> DAG:
    """Return the DAG that repairs one catalog."""
    name = catalog.name
    with pipeline_dag(
        dag_id=f"{NAME}__{name}",
        description=f"Mend pointers, views and lists of {name}",
        doc_md=document(NAME, name=name),
        max_active_runs=1,
        params=repair_params(),
        tags=["hipslake", "catalog", "versions"],
    ) as dag:
        RepairCatalogOperator(task_id="repair", catalog=name)
    return dag


PIPELINE = CatalogPipeline(NAME, catalog_repair)
