"""A billion rows of five columns on two cores, or as many as the disk holds: `make bench-scale`.

The rows are made while they are read (`benchmarks.made_rows`), so there are no source files. They go through
the steps of an ingest in a Spark session, are verified, and their keys are read back; then come a night of a
million rows, a cone of three degrees, whose rows are told beforehand by making all rows anew, and the
cross-match with ten million companions of rows. The same is done with 20 million rows, to which the large run
is held. Each run is a process of its own, and the memory of all its processes is weighed.

    python -m benchmarks.scale                      20M rows, and a billion or as many as the disk holds
    python -m benchmarks.scale --rows 20M 100M --repeats 1

Ends with exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.bars import Verdict, bar_lines
from benchmarks.machine import described_in_a_line
from benchmarks.made_rows import BLOCK_ROWS, FILE_ROWS, Stretch, block, lay_out
from benchmarks.processes import ROOT, environment, run_measured
from benchmarks.sizes import format_count, parse_millions
from benchmarks.store_runs import folder_of_night

CORES = 2
SIZES = [20_000_000, 1_000_000_000]
NIGHT_ROWS = 1_000_000
COMPANIONS = 10_000_000
CONE = {"ra": 266.4, "dec": -29.0, "radius": 3.0}
"""Degrees, at the galactic centre."""
SLOWDOWN_BAR = 1.15
"""Seconds per million rows of the ingest, over those of the smallest size."""
MEMORY_BAR = 4 * 2**30
ROW_BYTES = 60
"""On the disk at most, while a catalog is written: blocks of the exchange, and leaf files."""
PAGE = ROOT / "docs" / "benchmarks" / "scale.md"
_SPARE = 2e9  # bytes of the disk that are left to others
_QUIET = 0.5  # the load of a machine that does nothing else, at most

Run = dict[str, Any]


class _Disk(threading.Thread):
    """Watches how many bytes more a disk holds than at the start."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="disk", daemon=True)
        self._folder, self._ended = folder, threading.Event()
        self._before = shutil.disk_usage(folder).used
        self.most = 0

    def run(self) -> None:
        while not self._ended.wait(0.5):
            self.most = max(self.most, shutil.disk_usage(self._folder).used - self._before)

    def stop(self) -> None:
        self._ended.set()
        self.join()


def weighed(place: Path, task: str, *arguments: str) -> Run:
    """Run a program of `scale_runs`; what it took and told.

    Parameters
    ----------
    place : Path
        With the warehouse and the landing.
    task : str
        What it is called here.
    *arguments : str
    """
    log = place / "program.log"
    command = [
        sys.executable,
        "-m",
        "benchmarks.scale_runs",
        *arguments,
        f"--warehouse={place / 'warehouse'}",
    ]
    disk = _Disk(place)
    disk.start()
    try:
        usage = run_measured(command, log=log, variables=environment() | {"SPARK_LOCAL_DIRS": str(place)})
    finally:
        disk.stop()
    told = json.loads(log.read_text().splitlines()[-1])
    spans = {span["name"]: span["ended"] - span["began"] for span in told["spans"]}
    return {
        "task": task,
        "seconds": spans.pop("all", sum(spans.values())),
        "spans": spans,
        "whole_seconds": usage.seconds,
        "cpu_seconds": usage.cpu_seconds,
        "peak_bytes": usage.peak_bytes,
        "disk_bytes": disk.most,
        **told["told"],
    }


def ingest(place: Path, rows: int) -> Run:
    """Publish the first version of the catalog in a warehouse of its own."""
    shutil.rmtree(place, ignore_errors=True)
    landing = place / "landing"
    lay_out(Path(folder_of_night(f"{landing}/stars", 0)), Stretch(0, rows))
    return weighed(place, "ingest", "ingest", "--spark", f"--landing={landing}")


def what_follows(place: Path, rows: int) -> list[Run]:
    """What is done with the catalog: it is checked, fed, read and matched."""
    landing = place / "landing"
    first = weighed(place, "keys", "check")
    lay_out(Path(folder_of_night(f"{landing}/stars", 1)), Stretch(rows, NIGHT_ROWS))
    lay_out(Path(folder_of_night(f"{landing}/others", 0)), Stretch(0, min(COMPANIONS, rows), companions=True))
    return [
        first,
        weighed(place, "verify", "verify"),
        weighed(place, "night", "ingest", "--night=1", f"--landing={landing}"),
        weighed(place, "cone", "cone", *(f"--{name}={value}" for name, value in CONE.items())),
        weighed(place, "companions", "ingest", "--name=others", "--spark", f"--landing={landing}"),
        weighed(place, "match", "match"),
    ]


def in_cone(number: int) -> tuple[int, int]:
    """How many rows of a block lie in the cone, and the sum of their keys."""
    made = block(number)
    ra, dec = (np.radians(made[name].to_numpy()) for name in ("ra", "dec"))
    ra0, dec0 = np.radians(CONE["ra"]), np.radians(CONE["dec"])
    half = np.sin((dec - dec0) / 2) ** 2 + np.cos(dec) * np.cos(dec0) * np.sin((ra - ra0) / 2) ** 2
    inside = np.sqrt(half) <= np.sin(np.radians(CONE["radius"]) / 2)
    return int(inside.sum()), int(made["id"].to_numpy()[inside].sum())


def expected_of(rows: int) -> dict[str, tuple[int, ...]]:
    """What the keys of rows [0, rows) come to, and those of the cone once the night is there."""
    keys = (rows, rows * (rows - 1) // 2 % 2**64, (rows - 1) * rows * (2 * rows - 1) // 6 % 2**64)
    with ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as pool:
        blocks = range((rows + NIGHT_ROWS) // BLOCK_ROWS)
        found = np.array(list(pool.map(in_cone, blocks, chunksize=16)), np.int64)
    return {"keys": keys, "cone": (int(found[:, 0].sum()), int(found[:, 1].sum()))}


def check(runs: list[Run], rows: int) -> None:
    """Hold what runs told against what was made.

    Raises
    ------
    SystemExit
        A row is missing, is there twice, or is another.
    """
    by_task = {run["task"]: run for run in runs}
    expected = expected_of(rows)
    keys, cone = by_task["keys"], by_task["cone"]
    companions = min(COMPANIONS, rows)
    held = {
        "rows of the ingest": (by_task["ingest"]["rows"], rows),
        "keys": ((keys["rows"], keys["sum"], keys["squares"]), expected["keys"]),
        "problems that verify finds": (by_task["verify"]["problems"], 0),
        "rows after the night": (by_task["night"]["rows"], rows + NIGHT_ROWS),
        "rows of the cone": ((cone["rows"], cone["sum"]), expected["cone"]),
        "rows of the companions": (by_task["companions"]["rows"], companions),
    }
    for what, (found, wanted) in held.items():
        if found != wanted:
            raise SystemExit(f"{format_count(rows)}: {what}: {found}, and {wanted} were made")
    # Each companion lies within the radius of its row. Of a few, another one is nearer to it.
    match = by_task["match"]
    if match["rows"] < companions or match["own"] < 0.999 * companions:
        raise SystemExit(f"{match['own']} of {companions} companions were matched with their rows")


def measure(options: Any) -> list[Run]:
    """All runs of all sizes."""
    runs: list[Run] = []
    for rows in options.rows:
        repeats = options.repeats if rows == min(options.rows) else 1
        with tempfile.TemporaryDirectory(prefix="scale-", dir=options.folder) as folder:
            place = Path(folder) / "place"
            found = []
            for _ in range(repeats):
                found.append(ingest(place, rows))
                print(f"{format_count(rows)}: {found[-1]['seconds']:.1f} s, {found[-1]['spans']}", flush=True)
            found += what_follows(place, rows)
            check(found, rows)
            runs += [{"size": rows, **run} for run in found]
    return runs


def of_task(runs: list[Run], rows: int, task: str, key: str) -> float:
    """The median of a value of a task."""
    return float(median(run[key] for run in runs if (run["size"], run["task"]) == (rows, task)))


def verdicts(runs: list[Run]) -> list[Verdict]:
    """The bars."""
    sizes = sorted({run["size"] for run in runs})
    small, large = sizes[0], sizes[-1]
    found = []
    if large > small:
        pace = [of_task(runs, size, "ingest", "seconds") / size for size in (small, large)]
        ratio = pace[1] / pace[0]
        what = f"seconds per million rows, {format_count(large)} over {format_count(small)}"
        found.append(Verdict(what, ratio, f"<= {SLOWDOWN_BAR}", ratio <= SLOWDOWN_BAR))
    for size in sizes:
        peak = max(run["peak_bytes"] for run in runs if run["size"] == size)
        what = f"{format_count(size)} rows: most memory of all processes, of all tasks, GiB"
        found.append(Verdict(what, peak / 2**30, "<= 4", peak <= MEMORY_BAR))
    return found


_TITLES = {
    "ingest": "ingest, session up",
    "keys": "all keys read back",
    "verify": "verify: every byte",
    "night": "a night of 1M rows, without Spark",
    "cone": "cone of 3 degrees, twice",
    "companions": "ingest of 10M companions with a margin, session up",
    "match": "cross-match with them, session up",
}


def page(result: dict[str, Any]) -> str:
    """The outcome as Markdown."""
    runs = result["runs"]
    sizes = sorted({run["size"] for run in runs})
    lines = [
        "# A billion rows",
        "",
        f"{result['date']}, {result['machine']}. Made by `make bench-scale`.",
        "",
        "Rows of five columns (a key, ra, dec, two magnitudes), 40% of them near the galactic plane, made",
        "while they are read: making them is part of the seconds, twice for each row. Leaves of a million",
        "rows at most, zstd-1. All keys are read back and held against those that were made, every byte is",
        "verified, the rows of the cone are counted by making all rows anew, and each companion has to find",
        "its row. *Up*: from first step to last; *whole*: the whole process. *Peak*: proportional set",
        "sizes of all processes together, JVM among them, with the pages of files that they map.",
    ]
    if result["wanted"] > sizes[-1]:
        lines += [
            "",
            f"{format_count(result['wanted'])} rows were asked for; the disk had room for "
            f"{format_count(sizes[-1])}, at {ROW_BYTES} bytes a row while the catalog is written.",
        ]
    if result["load"] > _QUIET:
        lines += ["", f"Other programs ran on the machine, a load of {result['load']:.0f}."]
    lines += ["", "## Bars", "", *bar_lines([verdict._asdict() for verdict in verdicts(runs)])]
    for size in sizes:
        lines += [
            "",
            f"## {format_count(size)} rows",
            "",
            "| task | up s | whole s | cpu s | M rows/s up | peak GiB | disk GB | rows |",
            "|---|" + "---:|" * 7,
        ]
        for task, title in _TITLES.items():
            up, whole, cpu, peak, disk, rows = (
                of_task(runs, size, task, key)
                for key in ("seconds", "whole_seconds", "cpu_seconds", "peak_bytes", "disk_bytes", "rows")
            )
            handled = size if task in ("ingest", "keys", "verify", "match") else rows
            handled = NIGHT_ROWS if task == "night" else handled
            lines.append(
                f"| {title} | {up:.2f} | {whole:.1f} | {cpu:.0f} | {handled / up / 1e6:.2f} | "
                f"{peak / 2**30:.2f} | {disk / 1e9:.1f} | {rows:,.0f} |"
            )
        ingests = [run for run in runs if (run["size"], run["task"]) == (size, "ingest")]
        steps = {step: median(run["spans"][step] for run in ingests) for step in ingests[0]["spans"]}
        told = ", ".join(f"{step} {seconds:.1f}" for step, seconds in steps.items())
        cones = next(run["spans"] for run in runs if (run["size"], run["task"]) == (size, "cone"))
        lines += [
            "",
            f"{ingests[0]['leaves']:,} leaves. Seconds of the ingest by step: {told}. Of the cone: "
            + ", ".join(f"{name} {seconds:.2f}" for name, seconds in cones.items())
            + ".",
        ]
    return "\n".join(lines)


def fitting(rows: int, free: float) -> int:
    """The most rows, in round numbers, that a disk has room for.

    >>> fitting(1_000_000_000, 30e9), fitting(20_000_000, 30e9)
    (450000000, 20000000)
    """
    most = int((free - _SPARE) / ROW_BYTES)
    if rows <= most:
        return rows
    step = 50_000_000 if most > 100_000_000 else FILE_ROWS
    return most // step * step


def main(argv: list[str] | None = None) -> int:
    """Measure, print the page, and keep it if all of it was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_millions, nargs="+", default=SIZES, help="default: 20M 1G")
    parser.add_argument("--repeats", type=int, default=3, help="of the smallest ingest, whose median counts")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for the catalogs")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks/scale.md")
    options = parser.parse_args(argv)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # inherited by all that is started
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = max(options.rows)
    free = shutil.disk_usage(options.folder).free
    options.rows = sorted({fitting(rows, free) for rows in options.rows})
    if not options.rows[0]:
        raise SystemExit(f"{options.folder}: {free / 1e9:.1f} GB are free, too few; use --folder")
    if options.rows[-1] < wanted:
        print(f"The disk has room for {format_count(options.rows[-1])} rows.", flush=True)
    result = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": described_in_a_line(),
        "load": os.getloadavg()[0],
        "wanted": wanted,
        "runs": measure(options),
    }
    text = page(result)
    print(text)
    (options.folder / "scale.json").write_text(json.dumps(result, indent=1) + "\n")
    if options.page:
        PAGE.write_text(text + "\n")
    return 0 if all(verdict.passed for verdict in verdicts(result["runs"])) else 1


if __name__ == "__main__":
    sys.exit(main())
