"""Catalogs that others wrote become catalogs of the warehouse: a DAG for every spec that says `adopt`."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, CronTriggerTimetable, chain
from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.operators.adopt import AdoptCatalogOperator, ResolveAdoptOperator
from hipslake_airflow.operators.catalog import BuildHatsViewOperator
from hipslake_airflow.operators.run_folder import pushed_run_uri
from hipslake_airflow.params.catalog import adopt_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.sensors.adopted_catalog import AdoptedCatalogSensor

NAME = "catalog_adopt"


def catalog_adopt(spec: AdoptSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that adopts one catalog, and its changes."""
    with pipeline_dag(
        dag_id=dag_id_of(NAME, path),
        description=spec.description or None,
        doc_md=document(NAME, spec=spec, path=path),
        schedule=CronTriggerTimetable(spec.schedule, timezone="UTC") if spec.schedule else None,
        max_active_runs=1,
        params=adopt_params(spec),
        tags=["hipslake", "catalog", "adopt"],
    ) as dag:
        watch = AdoptedCatalogSensor(task_id="watch", spec_file=str(path))
        resolve = ResolveAdoptOperator(task_id="resolve", spec_file=str(path))
        run_uri = pushed_run_uri()
        adopt = AdoptCatalogOperator(task_id="adopt", run_uri=run_uri, catalog=spec.name)
        view = BuildHatsViewOperator(task_id="view", run_uri=run_uri)
        chain(watch, resolve, adopt, view)
    return dag


PIPELINE = SpecPipeline(NAME, AdoptSpec, catalog_adopt)
