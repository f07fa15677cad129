"""Our side of the benchmark: the steps of the ingest DAG, one after the other, without Airflow.

Steps that need no Spark run in this process, the others by `spark-submit` with a request and a report, as
their operators do it. The report's `seconds` leave out what starting Spark and interpreters costs: they add
up what the reports of the steps say. Verify runs where the DAG runs it, and is counted apart.

    python -m benchmarks.hipslake_ingest --source .data/bench/20M --output OUT --level 1 --report report.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What steps of this process import when they come to it, here before the clock of a step runs: as with the
# other systems, `seconds` leave out what starting interpreters costs, and the whole process has it.
import astropy.io.fits
import astropy.table  # noqa: F401
import matplotlib.backends.backend_agg
import matplotlib.figure  # noqa: F401
import pandas  # noqa: F401
from hipslake.engine.this_process import ThisProcess
from hipslake.spark.settings import launch_settings
from hipslake.steps.ingest import inputs, plan, publish, resolve
from hipslake.steps.ingest.request import (
    HistogramReport,
    HistogramRequest,
    InputsReport,
    InputsRequest,
    PlanReport,
    PlanRequest,
    PublishReport,
    PublishRequest,
    ResolveReport,
    ResolveRequest,
    WriteReport,
    WriteRequest,
)
from hipslake.steps.margin import request as margin_request
from hipslake.steps.report import Report, Request, perform
from hipslake.steps.run import RunFolder, parse, run_uri
from hipslake.steps.upkeep import hats_view, verify
from hipslake.steps.upkeep.request import HatsViewReport, HatsViewRequest, VerifyReport, VerifyRequest
from hipslake_airflow.hooks.library import build_library_archive, job_path

from benchmarks.leaf_encoding import ROW_GROUP_ROWS
from benchmarks.sizes import parse_count

NAME = "milky_way"
SESSION_PHASES = ("session",)  # a report may tell what its session took to start

SPEC = """\
name: {name}
source: {{uri: "{source}/*.{format}", format: {format}}}
position: {{ra: ra, dec: dec, unit: deg, frame: icrs, epoch: 2016.0}}
layout: hats
threshold: {threshold} rows
parquet: {{compression: zstd, level: {level}, row_group_rows: {row_group_rows}, floats: byte_stream_split}}
"""


def submit_command(*application: str, py_files: Path | None = None) -> list[str]:
    """The command line of `spark-submit` on the local cores, with the settings of the house."""
    master = os.environ.get("HIPSLAKE_SPARK_MASTER", "local[*,4]")
    command = ["spark-submit", "--master", master]
    for key, value in launch_settings(master).items():
        command += ["--conf", f"{key}={value}"]
    if py_files is not None:
        command += ["--py-files", str(py_files)]
    return [*command, *application]


class Ingest:
    """One run, step by step; keeps what every step took."""

    def __init__(self, run: str, scratch: Path) -> None:
        self.run = run
        self.wall: dict[str, float] = {}  # step -> seconds, with everything that starting it costs
        self.reports: dict[str, Report] = {}
        self._library = build_library_archive(scratch)

    def here(self, step: Callable[[Any], Report], request: Request, report_type: type[Report]) -> None:
        """Perform a step in this process."""
        started = time.perf_counter()
        self.reports[request.step] = perform(step, request, report_type)
        self.wall[request.step] = time.perf_counter() - started

    def in_spark(self, job: str, request: Request, report_type: type[Report]) -> None:
        """Submit a step's job and read its report."""
        started = time.perf_counter()
        folder = RunFolder(self.run)
        request_uri = folder.write(RunFolder.request_path(request.step), request)
        report_path = RunFolder.report_path(request.step)
        arguments = [f"--request={request_uri}", f"--report={folder.uri_of(report_path)}"]
        command = submit_command(job_path(job), *arguments, py_files=self._library)
        finished = subprocess.run(command, check=False)
        if not folder.storage.exists(report_path):
            raise SystemExit(f"{job} ended with {finished.returncode} and left no report")
        report = parse(report_type, folder.storage.read(report_path), where=report_path)
        if report.error is not None:
            raise SystemExit(f"{job}: {report.error.kind}: {report.error.message}")
        self.reports[request.step] = report
        self.wall[request.step] = time.perf_counter() - started


def up_to_write(spec_file: Path, warehouse: Path, scratch: Path) -> Ingest:
    """Run the steps of a catalog's ingest that read its source."""
    dag = f"catalog_ingest__{spec_file.stem}"
    run = run_uri(str(warehouse), dag, "benchmark")
    steps = Ingest(run, scratch)
    resolving = ResolveRequest(
        run_uri=run,
        dag_id=dag,
        run_id="benchmark",
        warehouse=str(warehouse),
        spec_file=str(spec_file),
    )
    steps.here(resolve.run, resolving, ResolveReport)
    steps.here(inputs.run, InputsRequest(run_uri=run), InputsReport)
    steps.in_spark(
        "histogram_catalog",
        HistogramRequest(run_uri=run),
        HistogramReport,
    )
    steps.here(plan.run, PlanRequest(run_uri=run), PlanReport)
    steps.in_spark("write_partitions", WriteRequest(run_uri=run), WriteReport)
    return steps


def ingest_spec(spec_file: Path, warehouse: Path, scratch: Path) -> Ingest:
    """Run every step of a catalog's ingest."""
    steps = up_to_write(spec_file, warehouse, scratch)
    run = steps.run
    if RunFolder(run).run().spec.margin.arcsec:
        steps.in_spark("build_margin", margin_request.MarginRequest(run_uri=run), margin_request.MarginReport)
    steps.here(lambda asked: verify.run(asked, ThisProcess()), VerifyRequest(run_uri=run), VerifyReport)
    steps.here(publish.run, PublishRequest(run_uri=run), PublishReport)
    steps.here(hats_view.run, HatsViewRequest(run_uri=run), HatsViewReport)
    return steps


def ingest(
    source: Path, output: Path, *, threshold: int, level: int, source_format: str = "parquet"
) -> dict[str, Any]:
    """Ingest the files of a folder into a new warehouse; return what every step took."""
    output.mkdir(parents=True)
    spec_file = output / f"{NAME}.yaml"
    spec_file.write_text(
        SPEC.format(
            name=NAME,
            source=source.resolve(),
            format=source_format,
            threshold=threshold,
            level=level,
            row_group_rows=ROW_GROUP_ROWS,
        )
    )
    steps = ingest_spec(spec_file, output.resolve() / "warehouse", output)
    run = steps.run
    frozen = RunFolder(run).run()
    up = {
        step: sum(seconds for phase, seconds in report.seconds.items() if phase not in SESSION_PHASES)
        for step, report in steps.reports.items()
    }
    verifying = steps.wall["verify"]
    return {
        "seconds": sum(seconds for step, seconds in up.items() if step != "verify"),
        "phases": {step: seconds for step, seconds in up.items() if step != "verify"},
        "verify": verifying,
        "wall": steps.wall,
        "reported": {step: report.seconds for step, report in steps.reports.items()},
        "dataset": f"{frozen.catalog_uri}/{frozen.write_id}/main/dataset",
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--source", type=Path, required=True, help="folder of Parquet files")
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--threshold", type=parse_count, default=1_000_000, help="rows of the largest leaf")
    parser.add_argument("--level", type=int, default=1, help="zstd level")
    arguments: Any = parser.parse_args(argv)
    report = ingest(arguments.source, arguments.output, threshold=arguments.threshold, level=arguments.level)
    arguments.report.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
