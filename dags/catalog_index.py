"""The indices of a published version are built anew: a DAG per spec that asks for any."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake_airflow.documents import index_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.catalog import BuildHatsViewOperator, BuildIndexOperator, ResolveRunOperator
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS

PIPELINE = "catalog_index"


def catalog_index(spec: CatalogSpec, path: Path) -> DAG | None:
    """Return the DAG that indexes one catalog, or None where the spec asks for no index."""
    if not spec.index:
        return None
    with pipeline_dag(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Index {spec.name}",
        doc_md=index_document(spec),
        max_active_runs=1,
        tags=["hipslake", "catalog", "index"],
    ) as dag:
        resolve = ResolveRunOperator(task_id="resolve", spec_file=str(path))
        run_uri = resolve.output["run_uri"]
        index = BuildIndexOperator(task_id="index", run_uri=run_uri, published=True)
        view = BuildHatsViewOperator(task_id="view", run_uri=run_uri)
        resolve >> index >> view
    return dag


globals().update(spec_dags(PIPELINE, CATALOG_SPECS, catalog_index))
