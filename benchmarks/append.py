"""What a night costs in a catalog, and in one that is ten times as large: `make bench-append`.

The smaller catalog covers one base pixel of the sky, the larger one ten, both as densely. The same nights,
all over that one base pixel, are appended to both: each by a process of its own, histogram included, without
Spark. Bytes are those that the process read and wrote, as the kernel counts them; strace counts the files of
the catalog that are opened. Ends with exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import ROOT, environment

PIXEL_ROWS = 1_000_000  # of the catalog, in each base pixel
NIGHT_ROWS = 50_000
SIZES = (1, 10)  # base pixels
NIGHTS = 5
BARS = {"files opened": 1.2, "bytes read": 1.2, "bytes written": 1.2, "seconds": 1.5}
KEPT = ROOT / "docs" / "benchmarks" / "append.md"
FIRST = datetime(2026, 10, 1, tzinfo=UTC)
SPEC = """\
name: stars
mode: append
source:
  uri: {landing}/night={{{{ night }}}}/*.parquet
  format: parquet
position: {{ra: ra, dec: dec}}
threshold: 50000 rows
"""


def rows_in(base_pixels: int, rows: int, seed: int) -> pa.Table:
    """Rows spread evenly over the first base pixels of the sky."""
    rng = np.random.default_rng(seed)
    h29 = rng.integers(0, base_pixels << 58, rows)
    ra, dec = healpy.pix2ang(1 << 29, h29, nest=True, lonlat=True)
    columns = {f"value_{number}": rng.normal(size=rows) for number in range(6)}
    return pa.table({"id": rng.integers(0, 1 << 62, rows), "ra": ra, "dec": dec, **columns})


def land(place: Path, night: int, table: pa.Table) -> None:
    folder = place / "landing" / f"night={FIRST + timedelta(days=night):%Y-%m-%d}"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "stars.parquet", row_group_size=200_000)


def start(place: Path, night: int) -> str:
    """Resolve the run of a night and freeze its files; the URI of its folder."""
    from hipslake.steps.ingest import inputs, resolve
    from hipslake.steps.ingest.request import InputsReport, InputsRequest, ResolveReport, ResolveRequest
    from hipslake.steps.report import perform
    from hipslake.steps.run import Window, run_uri

    at = FIRST + timedelta(days=night)
    warehouse, dag = str(place / "warehouse"), "catalog_ingest__stars"
    request = ResolveRequest(
        run_uri=run_uri(warehouse, dag, f"night-{night}"),
        dag_id=dag,
        run_id=f"night-{night}",
        warehouse=warehouse,
        spec_file=str(place / "stars.yaml"),
        window=Window(start=at, end=at + timedelta(days=1), origin="data_interval"),
    )
    perform(resolve.run, request, ResolveReport)
    perform(inputs.run, InputsRequest(run_uri=request.run_uri), InputsReport)
    return request.run_uri


def append(run_uri: str) -> dict[str, float]:
    """Count and append a run in this process; what it took."""
    from hipslake.engine.this_process import ThisProcess
    from hipslake.steps.append import run as append_run
    from hipslake.steps.append.request import AppendReport, AppendRequest
    from hipslake.steps.ingest import histogram
    from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
    from hipslake.steps.report import perform

    engine = ThisProcess()
    before, began = _io(), time.perf_counter()
    counted = HistogramRequest(run_uri=run_uri)
    perform(lambda asked: histogram.run(asked, engine), counted, HistogramReport)
    appended = AppendRequest(run_uri=run_uri)
    perform(lambda asked: append_run.run(asked, engine), appended, AppendReport)
    seconds, after = time.perf_counter() - began, _io()
    return {
        "seconds": seconds,
        "bytes read": after["rchar"] - before["rchar"],
        "bytes written": after["wchar"] - before["wchar"],
    }


def _io() -> dict[str, int]:
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def in_process_of_its_own(run_uri: str, trace: Path | None = None) -> dict[str, float]:
    """Append a run in a process of its own, under strace if it is to be traced."""
    command = [sys.executable, "-m", "benchmarks.append", "--run", run_uri]
    if trace is not None:
        command = ["strace", "-f", "-z", "-e", "trace=openat", "-o", str(trace), *command]
    done = subprocess.run(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def opened(trace: Path, catalog: Path) -> int:
    """Files of a catalog that were opened, folders left out."""
    calls = re.findall(r'openat\([^"]*"([^"]*)", ([^,)]*)', trace.read_text(errors="replace"))
    return sum(path.startswith(f"{catalog}/") and "O_DIRECTORY" not in flags for path, flags in calls)


def measure(place: Path, size: int) -> dict[str, float]:
    """Build a catalog and append the nights to it; the median night."""
    place.mkdir()
    (place / "stars.yaml").write_text(SPEC.format(landing=place / "landing"))
    land(place, 0, rows_in(size, size * PIXEL_ROWS, seed=0))
    append(start(place, 0))
    nights = []
    for night in range(1, NIGHTS + 1):
        land(place, night, rows_in(1, NIGHT_ROWS, seed=night))
        nights.append(in_process_of_its_own(start(place, night)))
    land(place, NIGHTS + 1, rows_in(1, NIGHT_ROWS, seed=NIGHTS + 1))
    in_process_of_its_own(start(place, NIGHTS + 1), place / "trace")
    median = {name: statistics.median(night[name] for night in nights) for name in nights[0]}
    return {"files opened": opened(place / "trace", place / "warehouse" / "catalogs" / "stars"), **median}


def main() -> int:
    """Measure both catalogs; print the outcome and keep it."""
    if shutil.which("strace") is None:
        print("bench-append: strace is missing; install it (apt-get install strace)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="hipslake-bench-", dir=os.environ.get("TMPDIR")) as folder:
        small, large = (measure(Path(folder, str(size)), size) for size in SIZES)
    text, passed = report(small, large)
    print(text)
    KEPT.write_text(text + "\n")
    return 0 if passed else 1


def report(small: dict[str, float], large: dict[str, float]) -> tuple[str, bool]:
    """The outcome as Markdown, and whether every bar was kept."""
    rows = [f"{size * PIXEL_ROWS:,} rows" for size in SIZES]
    lines = [
        "# Append benchmark",
        "",
        f"A night of {NIGHT_ROWS:,} rows, appended to {rows[0]} and to {rows[1]}, as dense.",
        f"Median of {NIGHTS} nights. Made by `make bench-append`.",
        "",
        f"| | {rows[0]} | {rows[1]} | ratio | wanted | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    ratios = {name: large[name] / small[name] for name in BARS}
    for name, bar in BARS.items():
        verdict = "pass" if ratios[name] < bar else "FAIL"
        lines.append(
            f"| {name} | {small[name]:,.4g} | {large[name]:,.4g} | {ratios[name]:.2f} | < {bar} | {verdict} |"
        )
    return "\n".join(lines), all(ratios[name] < bar for name, bar in BARS.items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", help="append this run, and print what it took (for the benchmark itself)")
    given = parser.parse_args()
    if given.run:
        print(json.dumps(append(given.run)))
    else:
        sys.exit(main())
