"""Rows go into Iceberg tables. Every spec in include/specs/tables/ that says no other type gives one DAG.

A table that is fed from a catalog follows its asset, unless the spec has a schedule of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable
from hipslake.specs.compaction_spec import COMPACTION
from hipslake.specs.table_spec import CatalogRowsSpec, TableMode, TableSpec
from hipslake.specs.yaml_file import find_specs, load_table_spec, spec_type
from hipslake_airflow.assets import catalog_asset
from hipslake_airflow.documents import sink_document
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.tables import (
    ConfirmSinkOperator,
    FreezeSinkFilesOperator,
    IcebergSinkOperator,
    ResolveSinkOperator,
)
from hipslake_airflow.params.tables import sink_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.schedules import schedule_of
from hipslake_airflow.sensors.source_files import SinkFilesSensor
from hipslake_airflow.spec_dags import dags_of
from hipslake_airflow.spec_folders import TABLE_SPECS

PIPELINE = "iceberg_sink"
PARALLEL_INTERVALS = 4
SPARK_ABOVE_BYTES = 256 << 20  # fewer bytes are sunk before Spark has started


def iceberg_sink(spec: TableSpec, path: Path) -> DAG:
    """Return the DAG that feeds one table."""
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=spec.description or None,
        doc_md=sink_document(spec, path),
        schedule=schedule_of(spec.schedule, followed_by(spec), timetable=CronDataIntervalTimetable),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        # Of a catalog, a run sinks all that is missing. Intervals of files are apart, where they only come.
        max_active_runs=PARALLEL_INTERVALS if spec.needs_interval and appends_files(spec) else 1,
        params=sink_params(spec),
        tags=["hipslake", "table", "sink"],
        default_args=RETRIES,
    ) as dag:
        resolve = ResolveSinkOperator(task_id="resolve", spec_file=str(path))
        run_uri = resolve.output["run_uri"]
        sink = IcebergSinkOperator(
            task_id="sink", run_uri=run_uri, table=spec.name, spark_above_bytes=SPARK_ABOVE_BYTES
        )
        if isinstance(spec.source, CatalogRowsSpec):
            resolve >> sink
            if spec.needs_interval:  # many in one run: some may be refused
                sink >> ConfirmSinkOperator(task_id="confirm", run_uri=run_uri)
        else:
            wait = SinkFilesSensor(task_id="wait", run_uri=run_uri)
            inputs = FreezeSinkFilesOperator(task_id="inputs", run_uri=run_uri)
            resolve >> wait >> inputs >> sink
    return dag


def followed_by(spec: TableSpec) -> list[Asset]:
    """The catalog that a table is fed from, if that is its newest version."""
    source = spec.source
    if isinstance(source, CatalogRowsSpec) and "/" not in source.catalog and source.version is None:
        return [catalog_asset(source.catalog)]
    return []


def appends_files(spec: TableSpec) -> bool:
    """Whether a run only adds the rows of files."""
    return not isinstance(spec.source, CatalogRowsSpec) and spec.mode is TableMode.APPEND


paths = [path for path in find_specs(TABLE_SPECS) if spec_type(path) != COMPACTION]
globals().update(dags_of(PIPELINE, paths, load_table_spec, iceberg_sink))
