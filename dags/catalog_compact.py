"""Leaves that gathered many files get one sorted file each: a DAG per spec of mode append, add_file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.documents import compact_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.derived import BuildHatsViewOperator
from hipslake_airflow.operators.increments import CompactCatalogOperator
from hipslake_airflow.operators.run import ResolveRunOperator
from hipslake_airflow.params.catalog import compact_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.schedules import schedule_of
from hipslake_airflow.spec_dags import spec_dags
from hipslake_airflow.spec_folders import CATALOG_SPECS

PIPELINE = "catalog_compact"
SPARK_ABOVE_BYTES = 256 << 20


def catalog_compact(spec: CatalogSpec, path: Path) -> DAG | None:
    """Return the DAG that compacts one catalog; None where leaves never gather files."""
    if not spec.gathers:
        return None
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=f"Compact {spec.name}",
        doc_md=compact_document(spec),
        schedule=schedule_of(spec.compact.schedule, [catalog_asset(spec.name)]),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=compact_params(spec),
        tags=["hipslake", "catalog", "compact"],
        default_args=RETRIES,
    ) as dag:
        resolve = ResolveRunOperator(task_id="resolve", spec_file=str(path))
        run_uri = resolve.output["run_uri"]
        compact = CompactCatalogOperator(
            task_id="compact", run_uri=run_uri, spark_above_bytes=SPARK_ABOVE_BYTES
        )
        view = BuildHatsViewOperator(task_id="view", run_uri=run_uri)
        resolve >> compact >> view
    return dag


globals().update(spec_dags(PIPELINE, CATALOG_SPECS, catalog_compact))
