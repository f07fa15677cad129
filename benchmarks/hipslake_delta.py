"""Our side of the Delta benchmark: the steps of the DAGs, one after the other, without Airflow.

python -m benchmarks.hipslake_delta --task cluster --source S --output O --rows 2M --report report.json
"""

from __future__ import annotations

from typing import Any

from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.compact_table import request as compact_table_request
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.steps.registry import STEPS
from hipslake.steps.run import run_uri
from hipslake.steps.sink import request as sink_request
from hipslake.steps.sink import resolve_sink, sink_files
from hipslake.steps.sink import run as sink_run

from benchmarks import table_task as task
from benchmarks.delta_table import NAME, TABLE, lake_in, table_in
from benchmarks.hipslake_tables import tell, worked
from benchmarks.our_steps import RunSteps

PLACE = f"format: delta\ntable: {TABLE}\ndelta: {{{{location: '{{lake}}'}}}}\n"
MERGE = f"""\
name: {NAME}
source: {{{{files: {{{{uri: "{{source}}/*.parquet", format: parquet}}}}}}}}
mode: upsert
key: {task.KEY}
write: {{write}}
{PLACE}"""
COMPACTION = f"""\
name: {NAME}
type: compaction
mode: {{curve}}
columns: [{", ".join(task.CLUSTER_COLUMNS)}]
target_file_size: {{file_size}} B
{PLACE}"""


def cluster(options: Any, watch: task.Stopwatch) -> list[str]:
    """Cluster the table along a curve."""
    output, dag = options.output.resolve(), f"table_compact__{NAME}"
    size = sum(path.stat().st_size for path in table_in(output).glob("*.parquet"))
    spec_file = output / f"{NAME}.yaml"
    spec_file.write_text(
        COMPACTION.format(lake=lake_in(output), curve=options.curve, file_size=size // options.files)
    )
    warehouse = str(output / "warehouse")
    uri = run_uri(warehouse, dag, "benchmark")
    steps = RunSteps(uri, output)
    request = compact_table_request.CompactTableRequest(
        run_uri=uri, warehouse=warehouse, spec=load_spec(spec_file, CompactionSpec)
    )
    report = compact_table_request.CompactTableReport
    worked(options, steps, "compact_table", compact_table_run.run, request, report)
    tell(steps.reports, watch)
    return []


def merge(options: Any, watch: task.Stopwatch) -> list[str]:
    """Upsert a batch of rows into the table."""
    output, dag = options.output.resolve(), f"iceberg_sink__{NAME}"
    spec_file = output / f"{NAME}.yaml"
    spec_file.write_text(
        MERGE.format(lake=lake_in(output), source=options.source.resolve(), write=options.write)
    )
    warehouse = str(output / "warehouse")
    uri = run_uri(warehouse, dag, "benchmark")
    steps = RunSteps(uri, output)
    resolving = sink_request.ResolveSinkRequest(
        run_uri=uri, dag_id=dag, run_id="benchmark", warehouse=warehouse, spec_file=str(spec_file)
    )
    steps.here(resolve_sink.run, resolving, sink_request.ResolveSinkReport)
    steps.here(sink_files.run, sink_request.SinkFilesRequest(run_uri=uri), sink_request.SinkFilesReport)
    request, report = sink_request.SinkRequest(run_uri=uri), sink_request.SinkReport
    if options.engine == "sized":  # as the operator does
        step = STEPS["sink"]
        options.engine = "here" if step.bytes_to_handle(request) < step.spark_above_bytes else "spark"
    worked(options, steps, "sink_iceberg", sink_run.run, request, report)
    tell(steps.reports, watch)
    return []


if __name__ == "__main__":
    task.perform({"cluster": cluster, "merge": merge})
