"""Old versions of a catalog go, with their files.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from airflow.sdk import DAG
from hipslake.specs.vacuum_spec import VacuumSpec
from hipslake_airflow.documents import vacuum_document
from hipslake_airflow.operators.retention import VacuumCatalogOperator
from hipslake_airflow.outcomes import outcomes
from hipslake_airflow.retention_dags import retention_dag
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS, CUBE_SPECS, JOIN_SPECS

PIPELINE = "catalog_vacuum"


def catalog_vacuum(name: str, kept: VacuumSpec) -> DAG:
    """Return the DAG that vacuums one catalog."""
    with retention_dag(PIPELINE, name, kept, kind="catalog", document=vacuum_document(name, kept)) as dag:
        VacuumCatalogOperator(task_id="vacuum", catalog=name)
    return dag


made = [catalog_vacuum(*outcome) for outcome in outcomes(JOIN_SPECS, CUBE_SPECS)]
globals().update({dag.dag_id: dag for dag in made})
kept = spec_dags(PIPELINE, CATALOG_SPECS, lambda spec, path: catalog_vacuum(spec.name, spec.vacuum))
globals().update(kept)
