"""Rows go into Iceberg tables. Every spec in include/specs/tables/ that says no other type gives one DAG.

A table that is fed from a catalog follows its asset, unless the spec has a schedule of its own. One that is
fed by a stream waits for files all the time, unless it has one. Where the spec says what the table is
clustered by, files are rewritten behind each sink, within a bound.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, CronTriggerTimetable
from hipslake.specs.spec_folder import SpecFolder
from hipslake.specs.stream_spec import StreamSpec
from hipslake.specs.table_rows import CatalogRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import TableMode

from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.night_timetable import NightTimetable
from hipslake_airflow.operators.run_folder import pushed_run_uri
from hipslake_airflow.operators.table import (
    COMPACTION,
    AuditBranchOperator,
    CompactTableOperator,
    ConfirmSinkOperator,
    DrainStreamOperator,
    FreezeSinkFilesOperator,
    IcebergSinkOperator,
    KeepClusteredOperator,
    ResolveSinkOperator,
)
from hipslake_airflow.params.tables import sink_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.schedules import schedule_of
from hipslake_airflow.sensors.source_files import SinkFilesSensor
from hipslake_airflow.sensors.stream_files import StreamFilesSensor

NAME = "iceberg_sink"
PARALLEL_INTERVALS = 4
ALWAYS = "@continuous"
"""A run begins when the one before it has ended, and waits for files."""
MOST_FAILURES = 3
"""In succession, of runs without a schedule: then Airflow pauses the DAG."""


def iceberg_sink(spec: TableSpec, path: Path, _specs: SpecFolder) -> DAG:
    """Return the DAG that feeds one table."""
    if spec.stream is not None:
        return _drained(spec, spec.stream, path)
    with pipeline_dag(
        dag_id=dag_id_of(NAME, path),
        description=spec.description or None,
        doc_md=document(NAME, spec=spec, path=path),
        schedule=schedule_of(spec.schedule, followed_by(spec), timetable=NightTimetable),
        # Of a catalog, a run sinks all that is missing. Intervals of files are apart, where they only come.
        max_active_runs=PARALLEL_INTERVALS if are_apart(spec) else 1,
        params=sink_params(spec),
        tags=["hipslake", "table", "sink"],
    ) as dag:
        resolve = ResolveSinkOperator(task_id="resolve", spec_file=str(path))
        run_uri = pushed_run_uri()
        publishes = spec.branch is None
        sink = IcebergSinkOperator(task_id="sink", run_uri=run_uri, table=spec.name, publishes=publishes)
        if isinstance(spec.source, CatalogRowsSpec):
            resolve >> sink
            if spec.needs_interval:  # many in one run: some may be refused
                sink >> ConfirmSinkOperator(task_id="confirm", run_uri=run_uri)
        else:
            wait = SinkFilesSensor(task_id="wait", run_uri=run_uri)
            inputs = FreezeSinkFilesOperator(task_id="inputs", run_uri=run_uri)
            resolve >> wait >> inputs >> sink
        if spec.branch is not None:  # also where nothing is missing: a run before may have left something
            audit = AuditBranchOperator(
                task_id="audit", run_uri=run_uri, table=spec.name, trigger_rule="none_failed"
            )
            sink >> audit
        if spec.cluster_by:
            (sink if spec.branch is None else audit) >> _kept(run_uri)
    return dag


def _kept(run_uri: Any) -> KeepClusteredOperator:
    return KeepClusteredOperator(task_id="keep_clustered", run_uri=run_uri)


def _drained(spec: TableSpec, stream: StreamSpec, path: Path) -> DAG:
    """Return the DAG that drains a stream into a table."""
    with pipeline_dag(
        dag_id=dag_id_of(NAME, path),
        description=spec.description or None,
        doc_md=document(NAME, spec=spec, path=path),
        schedule=schedule_of(spec.schedule, (), timetable=CronTriggerTimetable) if spec.schedule else ALWAYS,
        max_active_runs=1,
        # What cannot pass would be tried again at once, for ever.
        max_consecutive_failed_dag_runs=0 if spec.schedule else MOST_FAILURES,
        params=sink_params(spec),
        tags=["hipslake", "table", "sink", "stream"],
    ) as dag:
        watch = StreamFilesSensor(task_id="watch", spec_file=str(path))
        resolve = ResolveSinkOperator(task_id="resolve", spec_file=str(path))
        drain = DrainStreamOperator(task_id="drain", run_uri=pushed_run_uri(), table=spec.name)
        watch >> resolve >> drain
        if spec.cluster_by:  # which brings small files together, too
            drain >> _kept(pushed_run_uri())
        elif stream.compact:
            drain >> CompactTableOperator(task_id="compact_table", part=COMPACTION)
    return dag


def followed_by(spec: TableSpec) -> list[Asset]:
    """The catalog that a table is fed from, if that is its newest version."""
    source = spec.source
    if isinstance(source, CatalogRowsSpec) and "/" not in source.catalog and source.version is None:
        return [catalog_asset(source.catalog)]
    return []


def are_apart(spec: TableSpec) -> bool:
    """Whether runs of several intervals may be under way at once: a branch is audited by one at a time."""
    return spec.needs_interval and appends_files(spec) and spec.branch is None


def appends_files(spec: TableSpec) -> bool:
    """Whether a run only adds the rows of files."""
    return not isinstance(spec.source, CatalogRowsSpec) and spec.mode is TableMode.APPEND


PIPELINE = SpecPipeline(NAME, TableSpec, iceberg_sink)
