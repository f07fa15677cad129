"""What other files of a catalog say is written anew where it was damaged.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from airflow.sdk import DAG
from hipslake_airflow.derived_catalogs import derived_catalogs
from hipslake_airflow.documents import repair_document
from hipslake_airflow.operators.catalog import RepairCatalogOperator
from hipslake_airflow.params.catalog import repair_params
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS, CUBE_SPECS, JOIN_SPECS

PIPELINE = "catalog_repair"


def catalog_repair(name: str) -> DAG:
    """Return the DAG that repairs one catalog."""
    with pipeline_dag(
        dag_id=f"{PIPELINE}__{name}",
        description=f"Mend pointers, views and lists of {name}",
        doc_md=repair_document(name),
        max_active_runs=1,
        params=repair_params(),
        tags=["hipslake", "catalog", "versions"],
    ) as dag:
        RepairCatalogOperator(task_id="repair", catalog=name)
    return dag


made = [catalog_repair(name) for name, _ in derived_catalogs(JOIN_SPECS, CUBE_SPECS)]
globals().update({dag.dag_id: dag for dag in made})
kept = spec_dags(PIPELINE, CATALOG_SPECS, lambda spec, path: catalog_repair(spec.name))
globals().update(kept)
