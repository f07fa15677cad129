"""An older version of a catalog comes back. Every spec in include/specs/catalogs/ gives one DAG."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake_airflow.documents import rollback_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.derived import BuildHatsViewOperator
from hipslake_airflow.operators.run import ResolveRunOperator
from hipslake_airflow.operators.versions import RollbackCatalogOperator
from hipslake_airflow.params.catalog import rollback_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS

PIPELINE = "catalog_rollback"


def catalog_rollback(spec: CatalogSpec, path: Path) -> DAG:
    """Return the DAG that rolls one catalog back."""
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Bring an older version of {spec.name} back",
        doc_md=rollback_document(spec),
        schedule=None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=rollback_params(),
        tags=["hipslake", "catalog", "versions"],
        default_args=RETRIES,
    ) as dag:
        resolve = ResolveRunOperator(task_id="resolve", spec_file=str(path))
        run_uri = resolve.output["run_uri"]
        rollback = RollbackCatalogOperator(task_id="rollback", run_uri=run_uri, catalog=spec.name)
        view = BuildHatsViewOperator(task_id="view", run_uri=run_uri)
        resolve >> rollback >> view
    return dag


globals().update(spec_dags(PIPELINE, CATALOG_SPECS, catalog_rollback))
