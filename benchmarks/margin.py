"""What a margin costs: `make bench-margin`, beside hats-import on the same catalog.

A synthetic Milky Way is ingested once, without margins. Then a margin is built of it, by turns: by our
library in one process, by our Spark job, and by hats-import with two workers; whole processes are timed, with
all that starting them takes. What each wrote is compared: every row of ours must be in theirs, which holds
more than it should. Ends with exit code 1 if a bar is missed.

    python -m benchmarks.margin                  5M rows: results go to docs/benchmarks/margin.md
    python -m benchmarks.margin --rows 1M        they go to the folder of the data
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from benchmarks import machine
from benchmarks.milky_way import write_survey
from benchmarks.processes import ROOT, run_measured
from benchmarks.sizes import format_count, parse_count

ROWS, THRESHOLD, ARCSEC, REPEATS = 5_000_000, 250_000, 10.0, 3
LIBRARY, SPARK, PEER = "hipslake, one process", "hipslake, Spark", "hats-import"
KEPT = ROOT / "docs" / "benchmarks" / "margin.md"
GIB = 2**30
SPEC = """\
name: stars
source: {{uri: "{source}/*.parquet", format: parquet}}
position: {{ra: ra, dec: dec, unit: deg, frame: icrs, epoch: 2016.0}}
layout: hats
threshold: {threshold} rows
"""


def ingest(folder: Path, rows: int, threshold: int) -> Path:
    """Ingest stars without Spark; the root of the catalog."""
    from hipslake.engine.this_process import ThisProcess
    from hipslake.steps.ingest import histogram, inputs, plan, publish, write
    from hipslake.steps.ingest.request import (
        HistogramReport,
        HistogramRequest,
        InputsReport,
        InputsRequest,
        PlanReport,
        PlanRequest,
        PublishReport,
        PublishRequest,
        WriteReport,
        WriteRequest,
    )
    from hipslake.steps.report import perform
    from hipslake.steps.upkeep import hats_view, verify
    from hipslake.steps.upkeep.request import HatsViewReport, HatsViewRequest, VerifyReport, VerifyRequest

    source = folder / "source"
    source.mkdir(parents=True)
    for path in write_survey(folder.parent / "stars", rows):
        (source / path.name).hardlink_to(path)
    (folder / "stars.yaml").write_text(SPEC.format(source=source, threshold=threshold))
    uri, engine = resolve_run(folder, "catalog_ingest__stars"), ThisProcess()
    perform(inputs.run, InputsRequest(run_uri=uri), InputsReport)
    perform(lambda asked: histogram.run(asked, engine), HistogramRequest(run_uri=uri), HistogramReport)
    perform(plan.run, PlanRequest(run_uri=uri), PlanReport)
    perform(lambda asked: write.run(asked, engine), WriteRequest(run_uri=uri), WriteReport)
    perform(lambda asked: verify.run(asked, engine), VerifyRequest(run_uri=uri), VerifyReport)
    perform(publish.run, PublishRequest(run_uri=uri), PublishReport)
    perform(hats_view.run, HatsViewRequest(run_uri=uri), HatsViewReport)
    return folder / "warehouse" / "catalogs" / "stars"


def resolve_run(folder: Path, dag: str) -> str:
    """Resolve a run of the spec in a folder; the URI of its run folder."""
    from hipslake.steps.ingest import resolve
    from hipslake.steps.ingest.request import ResolveReport, ResolveRequest
    from hipslake.steps.report import perform
    from hipslake.steps.run import run_uri

    warehouse = str(folder / "warehouse")
    request = ResolveRequest(
        run_uri=run_uri(warehouse, dag, "benchmark"),
        dag_id=dag,
        run_id="benchmark",
        warehouse=warehouse,
        spec_file=str(folder / "stars.yaml"),
    )
    perform(resolve.run, request, ResolveReport)
    return request.run_uri


def build(system: str, folder: Path, arcsec: float) -> None:
    """Build a margin of the catalog in a folder, in this process or from it: what is timed."""
    if system == LIBRARY:
        from hipslake import Catalog

        Catalog.open(folder / "warehouse" / "catalogs" / "stars").build_margin(arcsec)
        return
    from hipslake.steps.margin.request import MarginReport, MarginRequest
    from hipslake.steps.upkeep import hats_view
    from hipslake.steps.upkeep.request import HatsViewReport, HatsViewRequest

    from benchmarks.our_steps import RunSteps

    uri = resolve_run(folder, "catalog_margin__stars")
    steps = RunSteps(uri, folder)
    steps.in_spark("build_margin", MarginRequest(run_uri=uri, arcsec=(arcsec,)), MarginReport)
    steps.here(hats_view.run, HatsViewRequest(run_uri=uri), HatsViewReport)


def measure(base: Path, system: str, arcsec: float, peers_python: str) -> dict[str, Any]:
    """Let a system build the margin of a catalog that nobody has built one of; what it took and wrote."""
    work = base.parent / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(base, work, copy_function=os.link, symlinks=True)
    catalog = work / "warehouse" / "catalogs" / "stars"
    if system == PEER:
        command = [peers_python, "-m", "benchmarks.hats_margin_peer", f"--arcsec={arcsec}"]
        command += [f"--catalog={catalog / 'current' / 'main'}", f"--output={work / 'output'}"]
    else:
        command = [sys.executable, "-m", "benchmarks.margin", f"--build={system}", f"--folder={work}"]
        command += [f"--arcsec={arcsec}"]
    os.sync()
    usage = run_measured(command, log=base.parent / "margin.log")
    name = f"main_{arcsec:g}arcs"
    dataset = (work / "output" / "margin" if system == PEER else catalog / "current" / name) / "dataset"
    return {"system": system, "seconds": usage.seconds, "peak": usage.peak_bytes, "rows": pairs(dataset)}


def pairs(dataset: Path) -> set[tuple[str, int]]:
    """Each row of a margin with the pixel that it is filed under."""
    found: set[tuple[str, int]] = set()
    for path in dataset.rglob("Npix=*.parquet"):
        pixel = f"{path.parts[-3]}/{path.stem}"
        ids = ds.dataset(path, partitioning=None).to_table(columns=["source_id"])["source_id"]
        found |= {(pixel, number) for number in ids.to_pylist()}
    return found


def report(runs: list[dict[str, Any]], options: Any) -> tuple[str, bool]:
    """The outcome as Markdown, and whether every bar was kept."""
    about = machine.describe(options.peers_python)
    lines = [
        "# Margin benchmark",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {about['processor']}, {about['cores']} cores. A margin of "
        f"{options.arcsec:g} arcsec of {format_count(options.rows)} rows in leaves of at most "
        f"{format_count(options.threshold)}. Whole processes; median of {options.repeats}. Made by "
        "`make bench-margin`.",
        "",
        "| system | seconds | peak GiB | rows in the margin |",
        "|---|---:|---:|---:|",
    ]
    median = {}
    for system in (LIBRARY, SPARK, PEER):
        mine = [run for run in runs if run["system"] == system]
        median[system] = statistics.median(run["seconds"] for run in mine)
        peak = max(run["peak"] for run in mine) / GIB
        lines.append(f"| {system} | {median[system]:.1f} | {peak:.2f} | {len(mine[0]['rows']):,} |")
    rows = {run["system"]: run["rows"] for run in runs}
    bars = {
        "one process is faster than hats-import": median[LIBRARY] < median[PEER],
        "Spark, started anew, is faster than hats-import": median[SPARK] < median[PEER],
        "Spark makes the same margin as one process": rows[SPARK] == rows[LIBRARY],
        "hats-import has every row of it, and more": rows[LIBRARY] <= rows[PEER],
    }
    lines += ["", *(f"- {bar}: {'pass' if kept else 'FAIL'}" for bar, kept in bars.items())]
    return "\n".join(lines), all(bars.values())


def main(options: Any) -> int:
    """Measure all systems by turns; print the outcome and keep it."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # inherited by all that is started
    base = options.folder / f"margin_{format_count(options.rows)}" / "base"
    shutil.rmtree(base, ignore_errors=True)
    ingest(base, options.rows, options.threshold)
    runs = []
    for _ in range(options.repeats):
        for system in (LIBRARY, SPARK, PEER):
            runs.append(measure(base, system, options.arcsec, options.peers_python))
            print(f"{system}: {runs[-1]['seconds']:.1f} s, {len(runs[-1]['rows']):,} rows", flush=True)
    text, passed = report(runs, options)
    print(text)
    whole = (options.rows, options.threshold, options.arcsec) == (ROWS, THRESHOLD, ARCSEC)
    (KEPT if whole else options.folder / "margin.md").write_text(text + "\n")
    shutil.rmtree(base.parent)
    return 0 if passed else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_count, default=ROWS)
    parser.add_argument("--threshold", type=parse_count, default=THRESHOLD, help="rows of the largest leaf")
    parser.add_argument("--arcsec", type=float, default=ARCSEC)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    parser.add_argument("--build", choices=[LIBRARY, SPARK], help="for the benchmark itself")
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python")),
    )
    given = parser.parse_args()
    if given.build:
        build(given.build, given.folder.resolve(), given.arcsec)
    else:
        given.folder = given.folder.resolve()
        sys.exit(main(given))
