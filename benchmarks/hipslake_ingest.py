"""Our side of the benchmark: the steps of the ingest DAG, one after the other, without Airflow.

Steps that need no Spark run in this process, the others by `spark-submit` with a request and a report, as
their operators do it. The report's `seconds` leave out what starting Spark and interpreters costs: they add
up what the reports of the steps say. Verify runs where the DAG runs it, and is counted apart.

    python -m benchmarks.hipslake_ingest --source .data/bench/20M --output OUT --level 1 --report report.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

# What steps of this process import when they come to it, here before the clock of a step runs: as with the
# other systems, `seconds` leave out what starting interpreters costs, and the whole process has it.
import astropy.io.fits
import astropy.table  # noqa: F401
import matplotlib.backends.backend_agg
import matplotlib.figure  # noqa: F401
import mocpy  # noqa: F401
import pandas  # noqa: F401
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.frozen_run import FrozenRun
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
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.upkeep import hats_view, verify
from hipslake.steps.upkeep.request import HatsViewReport, HatsViewRequest, VerifyReport, VerifyRequest

from benchmarks.leaf_encoding import ROW_GROUP_ROWS
from benchmarks.our_steps import SESSION_PHASES, RunSteps
from benchmarks.sizes import parse_count

NAME = "milky_way"

SPEC = """\
name: {name}
source: {{uri: "{source}/*.{format}", format: {format}}}
position: {{ra: ra, dec: dec, unit: deg, frame: icrs, epoch: 2016.0}}
layout: hats
threshold: {threshold} rows
parquet: {{compression: zstd, level: {level}, row_group_rows: {row_group_rows}, floats: byte_stream_split}}
"""


def up_to_write(spec_file: Path, warehouse: Path | str, scratch: Path) -> RunSteps:
    """Run the steps of a catalog's ingest that read its source."""
    dag = f"catalog_ingest__{spec_file.stem}"
    run = run_uri(str(warehouse), dag, "benchmark")
    steps = RunSteps(run, scratch)
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


def ingest_spec(spec_file: Path, warehouse: Path | str, scratch: Path) -> RunSteps:
    """Run every step of a catalog's ingest."""
    steps = up_to_write(spec_file, warehouse, scratch)
    run = steps.run
    if FrozenRun.of(RunFolder(run)).spec.margin.arcsec:
        steps.in_spark("build_margin", margin_request.MarginRequest(run_uri=run), margin_request.MarginReport)
    steps.here(lambda asked: verify.run(asked, ThisProcess()), VerifyRequest(run_uri=run), VerifyReport)
    steps.here(publish.run, PublishRequest(run_uri=run), PublishReport)
    steps.here(hats_view.run, HatsViewRequest(run_uri=run), HatsViewReport)
    return steps


def ingest(
    source: Path | str,
    output: Path,
    *,
    threshold: int,
    level: int,
    source_format: str = "parquet",
    warehouse: str = "",
) -> dict[str, Any]:
    """Ingest the files of a folder into a new warehouse; return what every step took.

    Parameters
    ----------
    source : Path or str
        A folder, or the URI of one in a store.
    output : Path
        A folder that does not exist yet.
    threshold : int
        Rows of the largest leaf.
    level : int
        Of zstd.
    source_format : str
    warehouse : str
        The URI of a warehouse elsewhere; by default it lies in `output`.
    """
    output.mkdir(parents=True)
    spec_file = output / f"{NAME}.yaml"
    spec_file.write_text(
        SPEC.format(
            name=NAME,
            source=source if "://" in str(source) else Path(source).resolve(),
            format=source_format,
            threshold=threshold,
            level=level,
            row_group_rows=ROW_GROUP_ROWS,
        )
    )
    steps = ingest_spec(spec_file, warehouse or output.resolve() / "warehouse", output)
    run = steps.run
    frozen = FrozenRun.of(RunFolder(run))
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
        "spans": steps.spans,
        "reported": {step: report.seconds for step, report in steps.reports.items()},
        "dataset": f"{frozen.catalog_uri}/{frozen.write_id}/main/dataset",
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--source", required=True, help="folder of Parquet files, or its URI")
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--threshold", type=parse_count, default=1_000_000, help="rows of the largest leaf")
    parser.add_argument("--level", type=int, default=1, help="zstd level")
    parser.add_argument("--warehouse", default="", help="URI of a warehouse elsewhere (default: in --output)")
    arguments: Any = parser.parse_args(argv)
    report = ingest(
        arguments.source,
        arguments.output,
        threshold=arguments.threshold,
        level=arguments.level,
        warehouse=arguments.warehouse,
    )
    arguments.report.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
