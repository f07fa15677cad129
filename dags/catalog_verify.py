"""A published catalog is read back, and held against what was written: a DAG per spec."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake_airflow.documents import verify_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.repair import VerifyPublishedOperator
from hipslake_airflow.operators.run import ResolveRunOperator
from hipslake_airflow.params.catalog import verify_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS

PIPELINE = "catalog_verify"


def catalog_verify(spec: CatalogSpec, path: Path) -> DAG:
    """Return the DAG that verifies what one catalog has published."""
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Verify what is published of {spec.name}",
        doc_md=verify_document(spec),
        schedule=None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=verify_params(),
        tags=["hipslake", "catalog", "versions"],
        default_args=RETRIES,
    ) as dag:
        resolve = ResolveRunOperator(task_id="resolve", spec_file=str(path))
        verify = VerifyPublishedOperator(task_id="verify", run_uri=resolve.output["run_uri"])
        resolve >> verify
    return dag


globals().update(spec_dags(PIPELINE, CATALOG_SPECS, catalog_verify))
