"""Two catalogs are joined on a key: a DAG for every spec of type equijoin in include/specs/joins/."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.equijoin import EquijoinSpec
from hipslake.specs.yaml_file import find_specs, join_type, load_equijoin_spec
from hipslake_airflow.documents import equijoin_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.catalog import (
    BuildHatsViewOperator,
    PublishCatalogOperator,
    VerifyCatalogOperator,
)
from hipslake_airflow.operators.equijoin import EquiJoinOperator, ResolveEquijoinOperator
from hipslake_airflow.params import join_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.spec_dags import dags_of
from hipslake_airflow.spec_folders import JOIN_SPECS

PIPELINE = "catalog_equijoin"
TYPE = "equijoin"
SPARK_ABOVE_BYTES = 256 << 20  # two catalogs of fewer bytes are joined before Spark has started


def catalog_equijoin(spec: EquijoinSpec, path: Path) -> DAG:
    """Return the DAG of one join."""
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=spec.description or None,
        doc_md=equijoin_document(spec, path),
        schedule=None,
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=join_params(spec),
        tags=["hipslake", "catalog", TYPE],
        default_args=RETRIES,
    ) as dag:
        resolve = ResolveEquijoinOperator(task_id="resolve", spec_file=str(path))
        run_uri = resolve.output["run_uri"]
        join = EquiJoinOperator(task_id="equijoin", run_uri=run_uri, spark_above_bytes=SPARK_ABOVE_BYTES)
        verify = VerifyCatalogOperator(task_id="verify", run_uri=run_uri)
        publish = PublishCatalogOperator(task_id="publish", run_uri=run_uri, catalog=spec.name)
        # Also after a run with nothing to do: an earlier one may have died between its commit and its view.
        view = BuildHatsViewOperator(task_id="view", run_uri=run_uri, trigger_rule="none_failed")
        resolve >> join >> verify >> publish >> view
    return dag


paths = [path for path in find_specs(JOIN_SPECS) if join_type(path) == TYPE]
globals().update(dags_of(PIPELINE, paths, load_equijoin_spec, catalog_equijoin))
