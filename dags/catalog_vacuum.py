"""Old versions of a catalog go, with their files. Every spec in include/specs/catalogs/ gives one DAG."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, CronTriggerTimetable
from hipslake.specs.catalog import CatalogSpec
from hipslake_airflow.documents import vacuum_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.versions import VacuumCatalogOperator
from hipslake_airflow.params.catalog import vacuum_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS

PIPELINE = "catalog_vacuum"


def catalog_vacuum(spec: CatalogSpec, path: Path) -> DAG:
    """Return the DAG that vacuums one catalog."""
    cron = spec.vacuum.schedule
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Take old versions of {spec.name} away",
        doc_md=vacuum_document(spec),
        schedule=CronTriggerTimetable(cron, timezone="UTC") if cron else None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=vacuum_params(spec),
        tags=["hipslake", "catalog", "versions"],
        default_args=RETRIES,
    ) as dag:
        VacuumCatalogOperator(task_id="vacuum", catalog=spec.name)
    return dag


globals().update(spec_dags(PIPELINE, CATALOG_SPECS, catalog_vacuum))
