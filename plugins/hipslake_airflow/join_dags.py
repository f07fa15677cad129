"""The DAG of a join of catalogs, whatever its kind."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param, chain
from hipslake.specs.join_specs import JoinSpec

from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.operators.catalog import (
    BuildHatsViewOperator,
    PublishCatalogOperator,
    VerifyCatalogOperator,
    derived_from,
)
from hipslake_airflow.operators.join import JoinOperator, ResolveJoinOperator
from hipslake_airflow.operators.run_folder import pushed_run_uri
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.schedules import schedule_of


def join_dag(
    pipeline: str,
    spec: JoinSpec,
    path: Path,
    *,
    params: dict[str, Param],
    resolve: type[ResolveJoinOperator],
    join: type[JoinOperator],
) -> DAG:
    """Return the DAG of one join.

    Parameters
    ----------
    pipeline : str
        The DAG is `<pipeline>__<name of the spec>`.
    spec : JoinSpec
    path : Path
        Its file.
    params : dict of str to Param
    resolve, join : type
        The operators of the kind of join.
    """
    kind = pipeline.removeprefix("catalog_")
    with pipeline_dag(
        dag_id=dag_id_of(pipeline, path),
        description=spec.description or None,
        doc_md=document(pipeline, spec=spec, path=path),
        schedule=schedule_of(spec.schedule, map(catalog_asset, spec.follows)),
        max_active_runs=1,
        params=params,
        tags=["hipslake", "catalog", kind],
    ) as dag:
        first = resolve(task_id="resolve", spec_file=str(path))
        run_uri = pushed_run_uri()
        work = join(task_id=kind, run_uri=run_uri)
        verify = VerifyCatalogOperator(task_id="verify", run_uri=run_uri)
        publish = PublishCatalogOperator(task_id="publish", run_uri=run_uri, catalog=spec.name)
        # Also after a run with nothing to do: an earlier one may have died between its commit and its view.
        # Not after one whose sides are not there yet; therefore it looks at the first task too.
        view = BuildHatsViewOperator(
            task_id="view", run_uri=run_uri, trigger_rule="none_failed_min_one_success"
        )
        derived = derived_from(run_uri, margin=spec.margin, index=spec.index)
        chain(first, work, *([derived] if derived else []), verify, publish, view)
        first >> view
    return dag
