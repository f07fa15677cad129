"""The indices of a published version are built anew: a DAG per spec that asks for any."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake_airflow.documents import index_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.derived import BuildHatsViewOperator, BuildIndexOperator
from hipslake_airflow.operators.run import ResolveRunOperator
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS

PIPELINE = "catalog_index"
SPARK_ABOVE_BYTES = 256 << 20


def catalog_index(spec: CatalogSpec, path: Path) -> DAG | None:
    """Return the DAG that indexes one catalog, or None where the spec asks for no index."""
    if not spec.index:
        return None
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Index {spec.name}",
        doc_md=index_document(spec),
        schedule=None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["hipslake", "catalog", "index"],
        default_args=RETRIES,
    ) as dag:
        resolve = ResolveRunOperator(task_id="resolve", spec_file=str(path))
        run_uri = resolve.output["run_uri"]
        index = BuildIndexOperator(
            task_id="index", run_uri=run_uri, published=True, spark_above_bytes=SPARK_ABOVE_BYTES
        )
        view = BuildHatsViewOperator(task_id="view", run_uri=run_uri)
        resolve >> index >> view
    return dag


globals().update(spec_dags(PIPELINE, CATALOG_SPECS, catalog_index))
