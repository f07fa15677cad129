"""Tables are compacted: a DAG for every spec of type compaction in include/specs/tables/.

That of an Iceberg table follows the sinks into it, unless the spec has a schedule of its own.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.spec_folder import SpecFolder

from hipslake_airflow.documents import document
from hipslake_airflow.failing_dags import dag_id_of
from hipslake_airflow.operators.run_folder import pushed_run_uri
from hipslake_airflow.operators.table import CompactTableOperator, ResolveCompactionOperator
from hipslake_airflow.params.tables import compaction_params
from hipslake_airflow.pipeline import SpecPipeline
from hipslake_airflow.retries import pipeline_dag
from hipslake_airflow.schedules import schedule_of
from hipslake_airflow.table_assets import assets_of_table

NAME = "table_compact"


def table_compact(spec: CompactionSpec, path: Path, specs: SpecFolder) -> DAG:
    """Return the DAG that compacts one table."""
    sinks = [] if spec.table is None else assets_of_table(spec.place, spec.table, specs)
    with pipeline_dag(
        dag_id=dag_id_of(NAME, path),
        description=spec.description or f"Compact {spec.table or 'a folder'}",
        doc_md=document(NAME, spec=spec),
        schedule=schedule_of(spec.schedule, sinks),
        max_active_runs=1,
        params=compaction_params(spec),
        tags=["hipslake", "table", "compact"],
    ) as dag:
        resolve = ResolveCompactionOperator(task_id="resolve", spec_file=str(path))
        resolve >> CompactTableOperator(task_id="compact_table", run_uri=pushed_run_uri())
    return dag


PIPELINE = SpecPipeline(NAME, CompactionSpec, table_compact)
