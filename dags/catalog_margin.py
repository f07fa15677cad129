"""A published catalog gets margins that its spec did not ask for. Every spec gives one DAG."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake_airflow.documents import margin_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.derived import BuildHatsViewOperator, BuildMarginOperator
from hipslake_airflow.operators.run import ResolveRunOperator
from hipslake_airflow.params.catalog import margin_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS

PIPELINE = "catalog_margin"


def catalog_margin(spec: CatalogSpec, path: Path) -> DAG:
    """Return the DAG that adds margins to the newest version of one catalog."""
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Add margins to {spec.name}",
        doc_md=margin_document(spec),
        schedule=None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=margin_params(spec),
        tags=["hipslake", "catalog", "margin"],
        default_args=RETRIES,
    ) as dag:
        resolve = ResolveRunOperator(task_id="resolve", spec_file=str(path))
        run_uri = resolve.output["run_uri"]
        margin = BuildMarginOperator(task_id="margin", run_uri=run_uri, published=True)
        view = BuildHatsViewOperator(task_id="view", run_uri=run_uri)
        resolve >> margin >> view
    return dag


globals().update(spec_dags(PIPELINE, CATALOG_SPECS, catalog_margin))
