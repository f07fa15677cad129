"""Tables are compacted: a DAG for every spec of type compaction in include/specs/tables/.

That of an Iceberg table follows the sinks into it, unless the spec has a schedule of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.compaction_spec import COMPACTION, CompactionSpec
from hipslake.specs.yaml_file import find_specs, load_compaction_spec, spec_type
from hipslake_airflow.documents import compaction_document
from hipslake_airflow.fed_tables import assets_of_table
from hipslake_airflow.invalid_specs import dag_id_of
from hipslake_airflow.operators.compact_table import CompactTableOperator, ResolveCompactionOperator
from hipslake_airflow.params.tables import compaction_params
from hipslake_airflow.retries import RETRIES
from hipslake_airflow.schedules import schedule_of
from hipslake_airflow.spec_dags import dags_of
from hipslake_airflow.spec_folders import TABLE_SPECS

PIPELINE = "table_compact"
SPARK_ABOVE_BYTES = 256 << 20  # fewer bytes are rewritten before Spark has started


def table_compact(spec: CompactionSpec, path: Path) -> DAG:
    """Return the DAG that compacts one table."""
    sinks = [] if spec.table is None else assets_of_table(spec.iceberg, spec.table, TABLE_SPECS)
    with DAG(
        dag_id=dag_id_of(PIPELINE, path),
        description=spec.description or f"Compact {spec.table or 'a folder'}",
        doc_md=compaction_document(spec),
        schedule=schedule_of(spec.schedule, sinks),
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=compaction_params(spec),
        tags=["hipslake", "table", "compact"],
        default_args=RETRIES,
    ) as dag:
        resolve = ResolveCompactionOperator(task_id="resolve", spec_file=str(path))
        resolve >> CompactTableOperator(
            task_id="compact_table", run_uri=resolve.output["run_uri"], spark_above_bytes=SPARK_ABOVE_BYTES
        )
    return dag


paths = [path for path in find_specs(TABLE_SPECS) if spec_type(path) == COMPACTION]
globals().update(dags_of(PIPELINE, paths, load_compaction_spec, table_compact))
