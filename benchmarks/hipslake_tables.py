"""Our side of the table benchmark: the steps of the DAGs, one after the other, without Airflow.

Steps that need no Spark run in this process, the others by `spark-submit`. `seconds` leave out what starting
Spark and interpreters costs; the whole process has it. Libraries are imported once the process is set up, as
by the command line.

    python -m benchmarks.hipslake_tables --task sink --source S --output O --rows 2M --report report.json
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hipslake.cli.main import SELDOM_USED
from hipslake.engine.own_process import end_process, import_when_used, leave_pandas_out, tune_command

from benchmarks import table_task as task

if TYPE_CHECKING:
    from hipslake.engine.model import Engine
    from hipslake.steps.report import Report, Request

    from benchmarks.our_steps import RunSteps

NAME, TABLE = "stars", "sky.stars"  # as of benchmarks/pyiceberg_tables.py

SINK = f"""\
name: {NAME}
source:
  files: {{{{uri: "{{source}}/*.parquet", format: parquet}}}}
table: {TABLE}
{{more}}
target_file_size: 128 MiB
properties:
  write.parquet.compression-codec: zstd
  write.parquet.compression-level: "{task.LEVEL}"
"""
PARTITIONED = f'mode: append\npartition: ["healpix[{task.SKY_ORDER}]", "year({task.TIME})"]'
COMPACTION = f"""\
name: {NAME}
type: compaction
folder: {{{{uri: "{{source}}", output: "{{output}}"}}}}
mode: {{curve}}
columns: [{", ".join(task.CLUSTER_COLUMNS)}]
target_file_size: {{file_size}} B
"""
UPSERT = f"mode: upsert\nkey: {task.KEY}\nwrite: {{write}}"


def sink_partitioned(options: Any, watch: task.Stopwatch) -> list[str]:
    """Append the rows to a new table with a partition per sky pixel and year."""
    _sink(options, watch, PARTITIONED)
    return task.parquet_files(options.output / "warehouse" / "tables")  # no others were there before


def upsert(options: Any, watch: task.Stopwatch) -> list[str]:
    """Upsert a batch of rows into the table that stands in the output folder."""
    from benchmarks.pyiceberg_tables import files_of, open_catalog

    _sink(options, watch, UPSERT.format(write=options.write))
    output = options.output.resolve()
    table = open_catalog(output / "state", output / "warehouse" / "tables").load_table(TABLE)
    return files_of(table)


def _sink(options: Any, watch: task.Stopwatch, more: str) -> None:
    output = options.output.resolve()
    os.environ["HIPSLAKE_STATE"] = str(output / "state")
    warehouse, dag = output / "warehouse", f"iceberg_sink__{NAME}"
    spec_file = output / f"{NAME}.yaml"
    spec_file.write_text(SINK.format(source=options.source.resolve(), more=more))
    if options.engine == "here":
        _sink_alone(spec_file, warehouse, watch)
        return
    # What steps import is imported before the clock of a step runs: see benchmarks/hipslake_ingest.py. Each
    # task imports what its own steps need, as in a DAG.
    import pyiceberg.catalog.sql  # noqa: F401
    from hipslake.steps.run import run_uri
    from hipslake.steps.sink import request as sink_request
    from hipslake.steps.sink import resolve_sink, sink_files
    from hipslake.steps.sink.request import (
        ResolveSinkReport,
        ResolveSinkRequest,
        SinkFilesReport,
        SinkFilesRequest,
    )

    from benchmarks.our_steps import RunSteps

    uri = run_uri(str(warehouse), dag, "benchmark")
    steps = RunSteps(uri, output)
    resolving = ResolveSinkRequest(
        run_uri=uri, dag_id=dag, run_id="benchmark", warehouse=str(warehouse), spec_file=str(spec_file)
    )
    steps.here(resolve_sink.run, resolving, ResolveSinkReport)
    steps.here(sink_files.run, SinkFilesRequest(run_uri=uri), SinkFilesReport)
    steps.in_spark("sink_iceberg", sink_request.SinkRequest(run_uri=uri), sink_request.SinkReport)
    tell(steps.reports, watch)


def _sink_alone(spec_file: Path, warehouse: Path, watch: task.Stopwatch) -> None:
    """Sink as `hipslake sink` does: this process does all of it."""
    from hipslake.api.table_runs import sink_by_spec

    reports: dict[str, Report] = {}

    def told(step: str, report: Report | None) -> None:
        if report is not None:
            reports[step] = report

    sink_by_spec(spec_file, warehouse=warehouse, spark=False, told=told)
    tell(reports, watch)


def cluster(options: Any, watch: task.Stopwatch) -> list[str]:
    """Cluster the files of the source along a curve, into a new folder."""
    from hipslake.specs.compaction_spec import CompactionSpec
    from hipslake.specs.spec_folder import load_spec
    from hipslake.steps.compact_table import request as compact_table_request
    from hipslake.steps.compact_table import run as compact_table_run
    from hipslake.steps.run import run_uri

    from benchmarks.our_steps import RunSteps

    output, dag = options.output.resolve(), f"table_compact__{NAME}"
    size = sum(path.stat().st_size for path in options.source.iterdir())
    spec_file = output / f"{NAME}.yaml"
    spec_file.write_text(
        COMPACTION.format(
            source=options.source.resolve(),
            output=output / "data",
            curve=options.curve,
            file_size=size // options.files,
        )
    )
    warehouse = str(output / "warehouse")
    uri = run_uri(warehouse, dag, "benchmark")
    steps = RunSteps(uri, output)
    request = compact_table_request.CompactTableRequest(
        run_uri=uri, warehouse=warehouse, spec=load_spec(spec_file, CompactionSpec)
    )
    job, report = "compact_table", compact_table_request.CompactTableReport
    worked(options, steps, job, compact_table_run.run, request, report)
    tell(steps.reports, watch)
    return task.parquet_files(output / "data")


def worked(
    options: Any,
    steps: RunSteps,
    job: str,
    run: Callable[[Any, Engine], Report],
    request: Request,
    report: type[Report],
) -> None:
    """Perform a step where the operator of the DAG would, by the size of its input: in Spark, or here."""
    if options.engine == "here":
        from hipslake.engine.this_process import ThisProcess

        steps.here(lambda asked: run(asked, ThisProcess()), request, report)
    else:
        steps.in_spark(job, request, report)


def tell(reports: Mapping[str, Report], watch: task.Stopwatch) -> None:
    """Take the phases from the reports of the steps, but for the start of the session."""
    from benchmarks.our_steps import SESSION_PHASES

    watch.phases = {
        f"{step}: {phase}": seconds
        for step, report in reports.items()
        for phase, seconds in report.seconds.items()
        if phase not in SESSION_PHASES
    }


if __name__ == "__main__":
    tune_command()  # as the command line does
    leave_pandas_out()
    import_when_used(*SELDOM_USED)
    task.perform({"sink": sink_partitioned, "cluster": cluster, "upsert": upsert, "few_keys": upsert})
    end_process(0)
