"""DAGs that are alike in several pipelines: of a form, of one step of a catalog, and of old versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, CronTriggerTimetable, Param
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.vacuum_spec import VacuumSpec

from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.operators.catalog import (
    BuildHatsViewOperator,
    ResolvePublishedOperator,
    ResolveRunOperator,
)
from hipslake_airflow.operators.run_folder import pushed_run_uri
from hipslake_airflow.operators.spark_step import SparkStepOperator
from hipslake_airflow.operators.step import StepOperator
from hipslake_airflow.params.catalog import vacuum_params
from hipslake_airflow.pipeline import FormPipeline
from hipslake_airflow.retries import pipeline_dag


def form_pipeline(
    pipeline: str,
    params: Callable[[Sequence[str]], dict[str, Param]],
    step: Callable[..., BaseOperator],
    *,
    description: str,
    tag: str,
) -> FormPipeline:
    """Return the pipeline of a DAG of one task, whose form names a catalog or cube.

    Parameters
    ----------
    pipeline : str
        `catalog_` or `cube_` and what is done; the DAG's id.
    params : callable
        Makes the fields of the form, from the names that the specs have.
    step : callable
        Makes the operator; takes nothing.
    description : str
    tag : str
    """
    kind = pipeline.partition("_")[0]

    def build(names: list[str]) -> DAG:
        with pipeline_dag(
            dag_id=pipeline,
            description=description,
            doc_md=document(pipeline),
            params=params(names),
            tags=["hipslake", kind, tag],
        ) as dag:
            step()
        return dag

    return FormPipeline(pipeline, CatalogSpec if kind == "catalog" else CubeSpec, build)


def catalog_dag(
    pipeline: str,
    spec: CatalogSpec,
    path: Path,
    step: Callable[..., StepOperator | SparkStepOperator],
    **given: Any,
) -> DAG:
    """Return the DAG that does one step with what the catalog of a spec has published.

    Parameters
    ----------
    pipeline : str
        `catalog_` and the id of the step's task; the DAG is `<pipeline>__<name of the spec>`.
    spec : CatalogSpec
    path : Path
        Its file.
    step : callable
        Makes the operator; takes `task_id` and `run_uri`.
    **given
        As for `published_dag`.
    """
    resolve = partial(ResolveRunOperator, spec_file=str(path))
    return published_dag(
        pipeline, spec.name, step, dag_id=dag_id_of(pipeline, path), resolve=resolve, spec=spec, **given
    )


def published_dag(
    pipeline: str,
    name: str,
    step: Callable[..., StepOperator | SparkStepOperator],
    *,
    description: str,
    tag: str,
    dag_id: str | None = None,
    resolve: Callable[..., BaseOperator] | None = None,
    spec: CatalogSpec | None = None,
    params: dict[str, Param] | None = None,
    schedule: Any = None,
    commits: bool = True,
) -> DAG:
    """Return the DAG that does one step with what a catalog has published, whatever makes it.

    Parameters
    ----------
    pipeline : str
        `catalog_` and the id of the step's task.
    name : str
        Of the catalog.
    step : callable
        Makes the operator; takes `task_id` and `run_uri`.
    description : str
    tag : str
    dag_id : str, optional
        By default `<pipeline>__<name>`.
    resolve : callable, optional
        Makes the operator that freezes the run; takes `task_id`. By default it goes by the newest version.
    spec : CatalogSpec, optional
        For the document.
    params : dict of str to Param, optional
    schedule : object, optional
        By default none.
    commits : bool
        Whether the step commits a version, which a task behind it shows to other readers.
    """
    with pipeline_dag(
        dag_id=dag_id or f"{pipeline}__{name}",
        description=description,
        doc_md=document(pipeline, name=name, spec=spec),
        schedule=schedule,
        max_active_runs=1,
        params=params,
        tags=["hipslake", "catalog", tag],
    ) as dag:
        first = (resolve or partial(ResolvePublishedOperator, catalog=name))(task_id="resolve")
        run_uri = pushed_run_uri()
        work = step(task_id=pipeline.removeprefix("catalog_"), run_uri=run_uri)
        first >> work
        if commits:
            work >> BuildHatsViewOperator(task_id="view", run_uri=run_uri)
    return dag


def retention_dag(
    pipeline: str, name: str, kept: VacuumSpec, *, versions: str = "versions", **facts: Any
) -> AbstractContextManager[DAG]:
    """Give the DAG that takes old versions away, of a catalog, a cube or a table, still without its task.

    Parameters
    ----------
    pipeline : str
        `catalog_`, `cube_` or `table_` and what is done.
    name : str
        The DAG is `<pipeline>__<name>`.
    kept : VacuumSpec
        What the spec says about it.
    versions : str
        What goes: versions, or the snapshots of a table.
    **facts
        What else the document of the pipeline asks for.
    """
    return pipeline_dag(
        dag_id=f"{pipeline}__{name}",
        description=f"Take old {versions} of {name} away",
        doc_md=document(pipeline, name=name, kept=kept, versions=versions, **facts),
        schedule=CronTriggerTimetable(kept.schedule, timezone="UTC") if kept.schedule else None,
        max_active_runs=1,
        params=vacuum_params(kept, versions),
        tags=["hipslake", pipeline.partition("_")[0], "versions"],
    )
