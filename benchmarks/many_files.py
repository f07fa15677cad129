"""What an ingest of very many small files takes, by their number: `make bench-files`.

The largest number is that of the light curve files of ZTF's data release 22. Each file has the stars of a
small part of the sky, as theirs have. The steps of the DAG up to `write` run as their operators run them, in
processes of their own, and are weighed together. Ends with exit code 1 if the bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import described_in_a_line
from benchmarks.processes import ROOT, run_measured

NUMBERS = (1_000, 10_000, 50_000, 176_561)
ROWS = 100  # of a file
IN_FOLDER = 1_000
BAR_SECONDS, BAR_BYTES = 600, 3 << 30
STEPS = ("inputs", "histogram", "plan", "write")
KEPT = ROOT / "docs" / "benchmarks" / "many_files.md"
SPEC = """\
name: many
source: {{uri: "{landing}/**/*.parquet", format: parquet}}
position: {{ra: objra, dec: objdec}}
"""


def write_file(folder: Path, number: int) -> None:
    """Write a file of stars near one point of the sky."""
    rng = np.random.default_rng(number)
    lon, lat = healpy.pix2ang(64, number * 7919 % healpy.nside2npix(64), nest=True, lonlat=True)
    table = pa.table(
        {
            "objectid": rng.integers(0, 1 << 60, ROWS),
            "filterid": rng.integers(1, 4, ROWS).astype(np.int8),
            "fieldid": np.full(ROWS, number // 64, np.int16),
            "rcid": np.full(ROWS, number % 64, np.int8),
            "objra": (lon + rng.uniform(-0.4, 0.4, ROWS)) % 360,
            "objdec": np.clip(lat + rng.uniform(-0.4, 0.4, ROWS), -90, 90),
            "nepochs": rng.integers(1, 2000, ROWS),
            "meanmag": rng.normal(18, 2, ROWS).astype(np.float32),
        }
    )
    place = folder / f"field={number // IN_FOLDER:06d}"
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, place / f"ztf_{number:06d}.parquet")


def write_files(folder: Path, first: int, last: int) -> None:
    """Write the files [first, last)."""
    for number in range(first, last):
        write_file(folder, number)


def land(folder: Path, files: int) -> int:
    """Write so many files, on all cores; their bytes."""
    step = 2_000
    with ProcessPoolExecutor() as pool:
        parts = [
            pool.submit(write_files, folder, first, min(first + step, files))
            for first in range(0, files, step)
        ]
        for part in parts:
            part.result()
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def ingest(place: Path) -> dict[str, float]:
    """Run the steps up to `write`; the seconds of each, with what starting it costs."""
    from benchmarks.hipslake_ingest import up_to_write

    steps = up_to_write(place / "many.yaml", place / "warehouse", place)
    return {step: steps.wall[step] for step in STEPS}


def measure(files: int) -> dict[str, Any]:
    """Land so many files and ingest them in processes of their own; what it took."""
    place = Path(tempfile.mkdtemp(prefix="hipslake-bench-", dir=os.environ.get("TMPDIR")))
    try:
        size = land(place / "landing", files)
        (place / "many.yaml").write_text(SPEC.format(landing=place / "landing"))
        command = [sys.executable, "-m", "benchmarks.many_files", "--place", str(place)]
        usage = run_measured(command, log=place / "log")
        seconds = json.loads((place / "seconds.json").read_text())
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return {"files": files, "bytes": size, "usage": usage, "seconds": seconds}


def page(measured: list[dict[str, Any]]) -> tuple[str, bool]:
    """The outcome as Markdown, and whether the bar was kept."""
    lines = [
        "# Very many small files",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {described_in_a_line()}. Made by `make bench-files`.",
        "",
        f"Parquet files of {ROWS} rows, {IN_FOLDER:,} in a folder, through the steps `inputs` to `write`, as",
        "their operators run them, the starts of two Spark jobs included. *Peak*: all processes together.",
        "176,561 is the number of light curve files in ZTF's data release 22.",
        "",
        "| files | MB | inputs s | histogram s | write s | all s | cpu s | cpu ms per file | peak GiB |",
        "|---:|" + "---:|" * 8,
    ]
    for each in measured:
        usage, seconds = each["usage"], each["seconds"]
        steps = " | ".join(f"{seconds[step]:.1f}" for step in ("inputs", "histogram", "write"))
        lines.append(
            f"| {each['files']:,} | {each['bytes'] / 1e6:,.0f} | {steps} | {sum(seconds.values()):.0f} | "
            f"{usage.cpu_seconds:.0f} | {1000 * usage.cpu_seconds / each['files']:.2f} | "
            f"{usage.peak_bytes / 2**30:.2f} |"
        )
    largest = measured[-1]
    took, peak = sum(largest["seconds"].values()), largest["usage"].peak_bytes
    passed = took <= BAR_SECONDS and peak <= BAR_BYTES
    lines += [
        "",
        f"Wanted of {largest['files']:,} files: at most {BAR_SECONDS} s and {BAR_BYTES / 2**30:.0f} GiB: "
        + ("pass." if passed else "FAIL."),
    ]
    return "\n".join(lines), passed


def main() -> int:
    """Measure every number of files; print the outcome and keep it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--files", type=int, nargs="+", default=list(NUMBERS), help="numbers of files")
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)  # what the measured process is told
    given = parser.parse_args()
    if given.place:
        (given.place / "seconds.json").write_text(json.dumps(ingest(given.place)))
        return 0
    text, passed = page([measure(files) for files in given.files])
    print(text)
    if tuple(given.files) == NUMBERS:
        KEPT.write_text(text + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
