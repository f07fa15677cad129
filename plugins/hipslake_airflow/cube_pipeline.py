"""The DAG that makes versions of a cube: by hand, or when its datasets have changed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Param
from hipslake.specs.cube_spec import CubeSpec, MaterialiseSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.deprecations import banner, old_forms
from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.operators.catalog import (
    HistogramCatalogOperator,
    PlanPixelsOperator,
    PublishCatalogOperator,
    VerifyCatalogOperator,
    WritePartitionsOperator,
)
from hipslake_airflow.operators.cube import (
    BuildCubeOperator,
    JoinedViewOperator,
    MaterialiseOperator,
    ResolveCubeOperator,
)
from hipslake_airflow.operators.run_folder import MATERIALISED, pushed_run_uri
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.table_assets import assets_of_table

log = logging.getLogger(__name__)

SPARK_ABOVE_BYTES = 256 << 20  # fewer bytes are read before Spark has started


def cube_dag(
    pipeline: str,
    spec: CubeSpec,
    path: Path,
    *,
    params: dict[str, Param],
    schedule: Any = None,
) -> DAG:
    """Return the DAG of one pipeline for one cube.

    Parameters
    ----------
    pipeline : str
        The DAG is `<pipeline>__<name of the spec>`.
    spec : CubeSpec
    path : Path
        Its file.
    params : dict of str to Param
    schedule : object, optional
        By default none.
    """
    old = old_forms(spec)
    for line in old:
        log.warning("%s: %s", path, line)
    with pipeline_dag(
        dag_id=dag_id_of(pipeline, path),
        description=spec.description or None,
        doc_md=banner(old) + document(pipeline, spec=spec, path=path),
        schedule=schedule,
        max_active_runs=1,
        params=params,
        tags=["hipslake", "cube", pipeline.removeprefix("cube_")],
    ) as dag:
        resolve = ResolveCubeOperator(task_id="resolve", spec_file=str(path))
        run_uri = pushed_run_uri()
        build = BuildCubeOperator(task_id="build", run_uri=run_uri, cube=spec.name)
        resolve >> build
        if spec.materialise is not None and spec.materialise.name is not None:
            # Also after a run with nothing to do: an earlier one may have died before it published.
            materialise = MaterialiseOperator(
                task_id="materialise", run_uri=run_uri, trigger_rule="none_failed"
            )
            build >> materialise
            _publish(materialise, spec.materialise)
    return dag


def news_of(spec: CubeSpec, specs: SpecFolder) -> list[Asset]:
    """The assets of the datasets whose rows are those of the newest version or snapshot; files have none.

    Those of tables are of the sinks among all specs.
    """
    found: list[Asset] = []
    for dataset in spec.datasets.values():
        if not dataset.follows:
            continue
        if dataset.catalog is not None and "/" not in dataset.catalog:
            found.append(catalog_asset(dataset.catalog))
        if dataset.table is not None:
            found += assets_of_table(dataset.iceberg, dataset.table, specs)
    return found


def _publish(materialise: MaterialiseOperator, spec: MaterialiseSpec) -> None:
    """The steps of an ingest, from files that are listed already."""
    assert spec.name is not None, "a catalog is asked for"
    run_uri = pushed_run_uri(materialise.task_id)
    place: dict[str, Any] = {"run_uri": run_uri, "part": MATERIALISED}
    histogram = HistogramCatalogOperator(task_id="histogram", spark_above_bytes=SPARK_ABOVE_BYTES, **place)
    plan = PlanPixelsOperator(task_id="plan", **place)
    write = WritePartitionsOperator(task_id="write", spark_above_bytes=SPARK_ABOVE_BYTES, **place)
    verify = VerifyCatalogOperator(task_id="verify", **place)
    publish = PublishCatalogOperator(task_id="publish", catalog=spec.name, **place)
    view = JoinedViewOperator(task_id="view", trigger_rule="none_failed", **place)
    materialise >> histogram >> plan >> write >> verify >> publish >> view
