"""A catalog becomes a HiPS, tiles of rows that Aladin loads as it zooms in.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
Where the spec of a catalog or a join asks for a HiPS, it follows the versions.
"""

from __future__ import annotations

from airflow.sdk import DAG

from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.documents import document
from hipslake_airflow.operators.exports import HipsCatalogOperator
from hipslake_airflow.params.hips import hips_params
from hipslake_airflow.pipeline import CatalogPipeline, CatalogToKeep
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.schedules import schedule_of

NAME = "catalog_hips"


def catalog_hips(catalog: CatalogToKeep) -> DAG:
    """Return the DAG that makes the HiPS of one catalog; what its spec asks for follows the versions."""
    name, asked = catalog.name, catalog.hips
    with pipeline_dag(
        dag_id=f"{NAME}__{name}",
        description=f"Make a HiPS of {name}, for Aladin",
        doc_md=document(NAME, name=name, asked=asked),
        schedule=None if asked is None else schedule_of(asked.schedule, [catalog_asset(name)]),
        max_active_runs=1,
        params=hips_params(name, asked),
        tags=["hipslake", "catalog", "hips"],
    ) as dag:
        HipsCatalogOperator(task_id="hips", catalog=name)
    return dag


PIPELINE = CatalogPipeline(NAME, catalog_hips)
