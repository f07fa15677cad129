"""A catalog becomes a HiPS, tiles of rows that Aladin loads as it zooms in.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from airflow.sdk import DAG
from hipslake.specs.vacuum_spec import VacuumSpec

from hipslake_airflow.documents import document
from hipslake_airflow.operators.catalog import HipsCatalogOperator
from hipslake_airflow.params.hips import hips_params
from hipslake_airflow.pipeline import CatalogPipeline
from hipslake_airflow.retries import pipeline_dag

NAME = "catalog_hips"


def catalog_hips(name: str, _kept: VacuumSpec) -> DAG:
    """Return the DAG that makes the HiPS of one catalog."""
    with pipeline_dag(
        dag_id=f"{NAME}__{name}",
        description=f"Make a HiPS of {name}, for Aladin",
        doc_md=document(NAME, name=name),
        max_active_runs=1,
        params=hips_params(name),
        tags=["hipslake", "catalog", "hips"],
    ) as dag:
        HipsCatalogOperator(task_id="hips", catalog=name)
    return dag


PIPELINE = CatalogPipeline(NAME, catalog_hips)
