"""A night of a survey in a DAG of one's own: fetch files, ingest them, and check what was published."""

import os
from pathlib import Path

from airflow.sdk import DAG, chain, task
from hipslake_airflow.operators.catalog import (
    BuildHatsViewOperator,
    FreezeInputsOperator,
    HistogramCatalogOperator,
    PlanPixelsOperator,
    PublishCatalogOperator,
    ResolveRunOperator,
    VerifyCatalogOperator,
    WritePartitionsOperator,
)
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.sensors.source_files import SourceFilesSensor

SPEC = Path(os.environ.get("HIPSLAKE_SPECS", "/our/specs")) / "catalogs" / "stars.yaml"

with DAG("survey_night", schedule=None, max_active_runs=1, default_args=RETRIES) as dag:

    @task
    def fetch() -> None:
        """Whatever brings the files to where the spec looks for them."""

    @task
    def rows_of(version: dict) -> int:
        """What a step reports goes on as any XCom."""
        return version["rows_out"]

    resolve = ResolveRunOperator(task_id="resolve", spec_file=str(SPEC))
    run = {"run_uri": resolve.output["run_uri"]}
    publish = PublishCatalogOperator(task_id="publish", catalog="stars", **run)
    chain(
        fetch(),
        resolve,
        SourceFilesSensor(task_id="wait", **run),
        FreezeInputsOperator(task_id="inputs", **run),
        HistogramCatalogOperator(task_id="histogram", **run),
        PlanPixelsOperator(task_id="plan", **run),
        WritePartitionsOperator(task_id="write", **run),
        VerifyCatalogOperator(task_id="verify", **run),
        publish,
        BuildHatsViewOperator(task_id="view", trigger_rule="none_failed", **run),
    )
    rows_of(publish.output)
