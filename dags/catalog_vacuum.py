"""Old versions of a catalog go, with their files.

Every spec in include/specs/catalogs/ gives one DAG, and so does every catalog that a join or a cube makes.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, CronTriggerTimetable
from hipslake.specs.vacuum import VacuumSpec
from hipslake_airflow.documents import vacuum_document
from hipslake_airflow.operators.versions import VacuumCatalogOperator
from hipslake_airflow.outcomes import outcomes
from hipslake_airflow.params.catalog import vacuum_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS, CUBE_SPECS, JOIN_SPECS

PIPELINE = "catalog_vacuum"


def catalog_vacuum(name: str, kept: VacuumSpec) -> DAG:
    """Return the DAG that vacuums one catalog."""
    with DAG(
        dag_id=f"{PIPELINE}__{name}",
        description=f"Take old versions of {name} away",
        doc_md=vacuum_document(name, kept),
        schedule=CronTriggerTimetable(kept.schedule, timezone="UTC") if kept.schedule else None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=vacuum_params(kept),
        tags=["hipslake", "catalog", "versions"],
        default_args=RETRIES,
    ) as dag:
        VacuumCatalogOperator(task_id="vacuum", catalog=name)
    return dag


made = [catalog_vacuum(*outcome) for outcome in outcomes(JOIN_SPECS, CUBE_SPECS)]
globals().update({dag.dag_id: dag for dag in made})
kept = spec_dags(PIPELINE, CATALOG_SPECS, lambda spec, path: catalog_vacuum(spec.name, spec.vacuum))
globals().update(kept)
