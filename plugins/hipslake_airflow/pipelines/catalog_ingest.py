"""Survey files become a published HEALPix catalog. Every spec in include/specs/catalogs/ gives one DAG.

In mode replace a run makes a whole new version; in modes append and upsert it adds the files of its interval.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, chain
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.night_timetable import NightTimetable
from hipslake_airflow.operators.catalog import (
    AppendIncrementOperator,
    BuildHatsViewOperator,
    FreezeInputsOperator,
    HistogramCatalogOperator,
    PlanPixelsOperator,
    PublishCatalogOperator,
    ResolveRunOperator,
    VerifyCatalogOperator,
    WritePartitionsOperator,
    derived_from,
)
from hipslake_airflow.operators.run_folder import pushed_run_uri
from hipslake_airflow.params.catalog import ingest_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.sensors.source_files import SourceFilesSensor

NAME = "catalog_ingest"
PARALLEL_APPENDS = 4


def catalog_ingest(spec: CatalogSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that ingests one catalog."""
    with pipeline_dag(
        dag_id=dag_id_of(NAME, path),
        description=spec.description or None,
        doc_md=document(NAME, spec=spec, path=path),
        schedule=NightTimetable(spec.schedule, timezone="UTC") if spec.schedule else None,
        # Two runs that replace would build the same version; those that append find room for each other.
        max_active_runs=PARALLEL_APPENDS if spec.mode.by_intervals else 1,
        params=ingest_params(spec),
        tags=["hipslake", "catalog", spec.layout.value],
    ) as dag:
        resolve = ResolveRunOperator(task_id="resolve", spec_file=str(path))
        run_uri = pushed_run_uri()
        wait = SourceFilesSensor(task_id="wait", run_uri=run_uri)
        inputs = FreezeInputsOperator(task_id="inputs", run_uri=run_uri)
        # Also after a run with nothing to do: an earlier one may have died between its commit and its view.
        view = BuildHatsViewOperator(task_id="view", run_uri=run_uri, trigger_rule="none_failed")
        histogram = HistogramCatalogOperator(task_id="histogram", run_uri=run_uri)
        if spec.mode.by_intervals:
            append = AppendIncrementOperator(task_id="append", run_uri=run_uri, catalog=spec.name)
            resolve >> wait >> inputs >> histogram >> append >> view
            return dag
        plan = PlanPixelsOperator(task_id="plan", run_uri=run_uri)
        write = WritePartitionsOperator(task_id="write", run_uri=run_uri)
        verify = VerifyCatalogOperator(task_id="verify", run_uri=run_uri)
        publish = PublishCatalogOperator(task_id="publish", run_uri=run_uri, catalog=spec.name)
        resolve >> wait >> inputs >> histogram >> plan >> write
        derived = derived_from(run_uri, margin=spec.margin, index=spec.index)
        chain(write, *([derived] if derived else []), verify, publish, view)
    return dag


PIPELINE = SpecPipeline(NAME, CatalogSpec, catalog_ingest)
