"""One large `.csv.gz`, ingested on one core and on two: `make bench-gzip`.

First the file is read by what may read it, on one core. Then the steps of the DAG up to `write` run as their
operators run them, in processes of their own that may use one core, and two. Ends with exit code 1 if the bar
is missed, which is of a file of 2 GB.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

from benchmarks.machine import described_in_a_line
from benchmarks.processes import ROOT, run_measured

BAR, BAR_BYTES = 1.7, 1.9e9  # of a file of 2 GB: below it, what starting Spark costs weighs too much
READ_BYTES = 8 << 20
ROWS = 200_000  # that are made at once
KEPT = ROOT / "docs" / "benchmarks" / "gzip.md"
SPEC = """\
name: one
source:
  uri: "{place}/one.csv.gz"
  format: csv
position: {{ra: ra, dec: dec}}
"""


def rows(seed: int) -> pa.Table:
    """Rows of a star catalog, with as many digits as such have."""
    rng = np.random.default_rng(seed)
    table = {
        "source_id": rng.integers(0, 1 << 62, ROWS),
        "ra": rng.uniform(0, 360, ROWS),
        "dec": np.degrees(np.arcsin(rng.uniform(-1, 1, ROWS))),
        **{name: np.round(rng.normal(18, 2, ROWS), 4) for name in ("g", "bp", "rp")},
        "parallax": np.round(rng.normal(1, 1, ROWS), 6),
        "flag": rng.integers(0, 9, ROWS),
        "name": np.char.add("s", rng.integers(0, 1_000_000, ROWS).astype(str)),
    }
    return pa.table(table)


def write_file(path: Path, size: int) -> int:
    """Write a gzip file of a size in bytes, as gzip's default level makes it; the bytes of its content."""
    packing, stored, content, seed = zlib.compressobj(6, zlib.DEFLATED, 31), 0, 0, 0
    with path.open("wb") as file:
        while stored < size:
            sink = io.BytesIO()
            csv.write_csv(rows(seed), sink, csv.WriteOptions(include_header=seed == 0))
            seed += 1
            content += len(sink.getvalue())
            stored += file.write(packing.compress(sink.getvalue()))
        file.write(packing.flush())
    return content


def readers() -> Iterator[tuple[str, Callable[[str], BinaryIO]]]:
    """What may read a gzip file, as far as it is installed."""
    yield "gzip, of Python", lambda path: gzip.GzipFile(path)
    for name, package, opened in (
        ("isal", "isal.igzip", lambda found, path: found.open(path)),
        ("indexed_gzip, making its index", "indexed_gzip", lambda found, path: found.IndexedGzipFile(path)),
        ("rapidgzip, 1 thread", "rapidgzip", lambda found, path: found.open(path, parallelization=1)),
        ("rapidgzip, 2 threads", "rapidgzip", lambda found, path: found.open(path, parallelization=2)),
    ):
        try:
            module = import_module(package)
        except ModuleNotFoundError:
            continue
        yield name, lambda path, opened=opened, module=module: opened(module, path)  # type: ignore[misc]


def read_by(opened: Callable[[str], BinaryIO], path: Path) -> tuple[float, float]:
    """Seconds of the clock, and of the processor, that reading a file takes."""
    began, used = time.perf_counter(), time.process_time()
    with opened(str(path)) as stream:
        while stream.read(READ_BYTES):
            pass
    return time.perf_counter() - began, time.process_time() - used


def ingest(place: Path) -> dict[str, float]:
    """Run the steps up to `write`; the seconds of each, with what starting it costs."""
    from benchmarks.hipslake_ingest import up_to_write

    cores = len(os.sched_getaffinity(0))
    steps = up_to_write(place / "one.yaml", place / f"warehouse-{cores}", place)
    return {step: steps.wall[step] for step in ("inputs", "histogram", "plan", "write")}


def measure(place: Path, cores: int) -> dict[str, Any]:
    """Ingest on so many cores; what it took."""
    report = place / f"seconds-{cores}.json"
    command = ["taskset", "--cpu-list", f"0-{cores - 1}", sys.executable, "-m", "benchmarks.big_gzip"]
    usage = run_measured([*command, "--place", str(place), "--report", str(report)], log=place / "log")
    return {"usage": usage, "seconds": json.loads(report.read_text())}


def page(
    size: int, content: int, reading: list[tuple[str, float, float]], runs: dict[int, Any]
) -> tuple[str, bool]:
    """The outcome as Markdown, and whether the bar was kept."""
    lines = [
        "# One large gzip file",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {described_in_a_line()}. Made by `make bench-gzip`.",
        "",
        f"A `.csv.gz` of {size / 1e9:.2f} GB, {content / 1e9:.2f} GB of text in 9 columns.",
        "",
        "## Reading it",
        "",
        "| reader | s | cpu s | MB of text per cpu s |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {wall:.1f} | {cpu:.1f} | {content / 1e6 / cpu:,.0f} |" for name, wall, cpu in reading),
        "",
        "## Ingesting it",
        "",
        "The steps `inputs` to `write`, each as its operator runs it, the starts of two Spark jobs included.",
        "",
        "| cores | histogram s | write s | all s | cpu s | peak GiB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    totals = {cores: sum(run["seconds"].values()) for cores, run in runs.items()}
    for cores, run in runs.items():
        seconds, usage = run["seconds"], run["usage"]
        lines.append(
            f"| {cores} | {seconds['histogram']:.0f} | {seconds['write']:.0f} | {totals[cores]:.0f} | "
            f"{usage.cpu_seconds:.0f} | {usage.peak_bytes / 2**30:.2f} |"
        )
    ratio = totals[1] / totals[2]
    passed, is_judged = ratio >= BAR, size >= BAR_BYTES
    verdict = f" (wanted: {BAR}): {'pass' if passed else 'FAIL'}" if is_judged else ""
    lines += ["", f"On two cores {ratio:.2f} times as fast{verdict}."]
    return "\n".join(lines), passed or not is_judged


def main() -> int:
    """Write the file, read it, ingest it on one core and on two; print the outcome and keep it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--gigabytes", type=float, default=2.0, help="size of the file (default: %(default)s)"
    )
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)  # what the measured process is told
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.place:
        given.report.write_text(json.dumps(ingest(given.place)))
        return 0
    with tempfile.TemporaryDirectory(prefix="hipslake-bench-", dir=os.environ.get("TMPDIR")) as name:
        place = Path(name)
        content = write_file(place / "one.csv.gz", int(given.gigabytes * 1e9))
        (place / "one.yaml").write_text(SPEC.format(place=place))
        size = (place / "one.csv.gz").stat().st_size
        reading = [(reader, *read_by(opened, place / "one.csv.gz")) for reader, opened in readers()]
        text, passed = page(size, content, reading, {cores: measure(place, cores) for cores in (1, 2)})
    print(text)
    if given.gigabytes == 2.0:
        KEPT.write_text(text + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
