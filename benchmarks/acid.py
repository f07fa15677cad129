"""`make bench-acid`: ingest, margin and cross-match beside ACID, each by its own command line, on two cores.

A synthetic Milky Way, and a quarter of its stars seen again, as in `benchmarks.crossmatch`. Both are
ingested, the smaller one gets a margin, and the larger one is matched with it; each system works on what it
ingested. Whole processes are timed, with all that starting them takes, and with our reading back of what was
written. What they wrote is compared: the rows of the catalogs, and the very pairs. Ends with exit code 1 if a
bar is missed.

    python -m benchmarks.acid                    20M x 5M: results go to docs/benchmarks/acid.md
    python -m benchmarks.acid --quick            2M x 500k, once: they go to the folder of the data
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import machine
from benchmarks.crossmatch import LEAF, MARGIN, MOVED, RADIUS, write_sources
from benchmarks.leaf_encoding import ROW_GROUP_ROWS
from benchmarks.milky_way import FILE_ROWS
from benchmarks.processes import ROOT, run_measured
from benchmarks.sizes import format_count, parse_count

CORES, ROWS, THRESHOLD, REPEATS = 2, 20_000_000, 1_000_000, 3
QUICK_ROWS, QUICK_THRESHOLD = 2_000_000, 100_000
OURS, IN_PROCESS, PEER = "hipslake", "hipslake --no-spark", "ACID"
SYSTEMS = (OURS, IN_PROCESS, PEER)
INGEST, INGEST_RIGHT, MARGINS, MATCH = "ingest", "ingest of the right side", "margin", "match"
TASKS = (INGEST, INGEST_RIGHT, MARGINS, MATCH)
KEPT = ROOT / "docs" / "benchmarks" / "acid.md"
GIB = 2**30
PARQUET = f"{{compression: zstd, level: 1, row_group_rows: {ROW_GROUP_ROWS}, floats: byte_stream_split}}"
SPEC = """\
name: {name}
source: {{uri: "{source}/*.parquet", format: parquet}}
position: {{ra: ra, dec: dec, epoch: 2016.0}}
threshold: {threshold} rows
parquet: {parquet}
"""
JOIN = """\
name: a_x_b
type: crossmatch
left: {{catalog: stars_a, columns: [source_id, ra, dec]}}
right: {{catalog: stars_b, columns: [source_id, ra, dec]}}
radius_arcsec: {radius}
parquet: {parquet}
"""
QUERY = """\
SELECT a.source_id, a.ra, a.dec,
       b.source_id AS source_id_stars_b, b.ra AS ra_stars_b, b.dec AS dec_stars_b, apart
FROM stars_a AS a JOIN stars_b AS b ON XMATCH(radius_arcsec => {radius}, dist_col => 'apart')
"""


class Ours:
    """Our command line, on a warehouse of its own; the margin has none and is built by a line of Python."""

    def __init__(self, folder: Path, sources: dict[str, Path], threshold: int, *options: str) -> None:
        self.warehouse = folder / "warehouse"
        self._folder, self._options = folder, options
        for name, source in sources.items():
            text = SPEC.format(name=name, source=source, threshold=threshold, parquet=PARQUET)
            (folder / f"{name}.yaml").write_text(text)
        (folder / "a_x_b.yaml").write_text(JOIN.format(radius=RADIUS, parquet=PARQUET))

    def command(self, task: str) -> list[str]:
        """What is run for a task."""
        if task == MARGINS:
            opened = f"Catalog.open({str(self._root('stars_b'))!r})"
            return [sys.executable, "-c", f"from hipslake import Catalog; {opened}.build_margin({MARGIN})"]
        name = {INGEST: "stars_a", INGEST_RIGHT: "stars_b", MATCH: "a_x_b"}[task]
        spec = str(self._folder / f"{name}.yaml")
        what = ["match", spec] if task == MATCH else ["ingest", "--spec", spec]
        return [sys.executable, "-m", "hipslake", *what, f"--warehouse={self.warehouse}", *self._options]

    def written(self, task: str) -> list[Path]:
        """The leaf files of what a task wrote."""
        name = {INGEST: "stars_a", INGEST_RIGHT: "stars_b", MATCH: "a_x_b", MARGINS: "stars_b"}[task]
        current = self._root(name) / "current"
        folder = current / (f"main_{MARGIN}arcs" if task == MARGINS else "main")
        return _leaves(folder)

    def _root(self, name: str) -> Path:
        return self.warehouse / "catalogs" / name


class Acid:
    """ACID's command line, in the environment of the peers."""

    def __init__(self, folder: Path, sources: dict[str, Path], threshold: int, python: str) -> None:
        self._folder, self._sources, self._threshold = folder / "acid", sources, threshold
        self._acid = [python, "-m", "acid_cli"]
        self._folder.mkdir()

    def command(self, task: str) -> list[str]:
        """What is run for a task: two workers, leaves by our rule, which its import out of core has."""
        workers = ["--workers", str(CORES)]
        if task == MARGINS:
            right = str(self._folder / "stars_b")
            return [*self._acid, "hats", "build-margin", right, "--margin-arcsec", str(MARGIN), *workers]
        if task == MATCH:
            where = ["--db", str(self._folder), "--output", str(self._folder / "a_x_b"), *workers]
            return [*self._acid, "query", QUERY.format(radius=RADIUS), *where]
        name = {INGEST: "stars_a", INGEST_RIGHT: "stars_b"}[task]
        where = ["--out", str(self._folder / name), "--ra", "ra", "--dec", "dec"]
        rule = ["--mode", "shuffle", "--rows-per-partition", str(self._threshold), "--no-margin"]
        source = str(self._sources[name])
        return [*self._acid, "import", "parquet", source, *where, *rule, *workers, "--progress", "off"]

    def written(self, task: str) -> list[Path]:
        """The leaf files of what a task wrote."""
        if task == MARGINS:
            (folder,) = (found for found in self._folder.glob("stars_b_*") if found.is_dir())
            return _leaves(folder)
        return _leaves(self._folder / {INGEST: "stars_a", INGEST_RIGHT: "stars_b", MATCH: "a_x_b"}[task])


def _leaves(folder: Path) -> list[Path]:
    return sorted(path for path in folder.resolve().rglob("*.parquet") if LEAF.fullmatch(path.name))


def chain(
    system: str, folder: Path, sources: dict[str, Path], threshold: int, python: str
) -> tuple[Any, ...]:
    """Let a system do all tasks, in a folder that is made anew; a row for each, and its pairs."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if system == PEER:
        worker: Ours | Acid = Acid(work, sources, threshold, python)
    else:
        worker = Ours(work, sources, threshold, *(("--no-spark",) if system == IN_PROCESS else ()))
    rows = []
    for task in TASKS:
        os.sync()  # nobody pays for what another has left to write
        usage = run_measured(worker.command(task), log=folder / "acid.log")
        written = [pq.read_metadata(path) for path in worker.written(task)]
        rows.append(
            {
                "system": system,
                "task": task,
                "seconds": usage.seconds,
                "cpu_seconds": usage.cpu_seconds,
                "peak_bytes": usage.peak_bytes,
                "rows": sum(footer.num_rows for footer in written),
                "files": len(written),
            }
        )
        print(f"{system}, {task}: {usage.seconds:.1f} s", flush=True)
    pairs = ids_of(worker.written(MATCH))
    shutil.rmtree(work)
    return rows, pairs


def ids_of(files: list[Path]) -> np.ndarray:
    """int64[pairs, 2]: the ids of both sides, in the leaf files of a match."""
    names = ["source_id", "source_id_stars_b"]
    tables = [pq.read_table(path, columns=names, partitioning=None) for path in files]
    return np.concatenate([np.stack([table[name].to_numpy() for name in names], axis=1) for table in tables])


def unlike(left: np.ndarray, right: np.ndarray) -> int:
    """How many pairs, int64[n, 2], only one of both has; each has a pair once."""
    form = np.dtype([("left", np.int64), ("right", np.int64)])
    common = np.intersect1d(*(np.ascontiguousarray(pairs).view(form).ravel() for pairs in (left, right)))
    return len(left) + len(right) - 2 * len(common)


def verdicts(runs: list[dict[str, Any]], unequal: dict[str, int]) -> list[tuple[str, bool]]:
    """What the medians say: one of ours is faster in each task, and nothing was lost."""
    found = []
    for task in TASKS:
        seconds = {system: _median(runs, system, task, "seconds") for system in _systems(runs)}
        if PEER not in seconds:
            continue
        for system in (name for name in seconds if name != PEER):
            ratio = seconds[PEER] / seconds[system]
            found.append((f"{task}: ACID takes {ratio:.2f} times as long as {system}", ratio > 1))
    for task in (INGEST, INGEST_RIGHT):
        rows = {run["rows"] for run in runs if run["task"] == task}
        found.append(
            (f"{task}: all wrote the same number of rows ({', '.join(map(str, rows))})", len(rows) == 1)
        )
    for system, pairs in unequal.items():
        found.append((f"match: {system} found the pairs of {runs[0]['system']} ({pairs} unlike)", pairs == 0))
    return found


def _systems(runs: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(run["system"] for run in runs))


def _median(runs: list[dict[str, Any]], system: str, task: str, key: str) -> float:
    return statistics.median(run[key] for run in runs if (run["system"], run["task"]) == (system, task))


def markdown(options: Any, runs: list[dict[str, Any]], unequal: dict[str, int]) -> str:
    """The page."""
    told = machine.describe(options.peers_python)
    version = subprocess.run(
        [options.peers_python, "-c", "from importlib.metadata import version; print(version('pyacid'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    size = f"{format_count(options.rows)} x {format_count(options.rows // 4)}"
    lines = [
        "# Beside ACID",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {told['processor']}, {CORES} cores. {size} rows of a synthetic "
        f"Milky Way, of which the smaller side is moved by {MOVED} arcsec; leaves of at most "
        f"{format_count(options.threshold)} rows, zstd-1, a margin of {MARGIN} arcsec, nearest within "
        f"{RADIUS:g} arcsec, three columns of each side, written. pyacid {version}. Whole processes, each by "
        f"its command line; median of {options.repeats}. Made by `make bench-acid`.",
        "",
        "| task | system | seconds | CPU seconds | peak GiB | rows | leaf files |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for task in TASKS:
        for system in _systems(runs):
            seconds, cpu, peak = (
                _median(runs, system, task, key) for key in ("seconds", "cpu_seconds", "peak_bytes")
            )
            last = [run for run in runs if (run["system"], run["task"]) == (system, task)][-1]
            lines.append(
                f"| {task} | {system} | {seconds:.1f} | {cpu:.1f} | {peak / GIB:.2f} "
                f"| {last['rows']:,} | {last['files']} |"
            )
    lines += [
        "",
        *(f"- {what}: {'pass' if passed else '**FAIL**'}" for what, passed in verdicts(runs, unequal)),
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Measure, and write the page."""
    options = _options(argv)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # inherited by all that is started
    folder: Path = options.folder.resolve()
    sources = {name: path.resolve() for name, path in write_sources(folder, options.rows).items()}
    runs: list[dict[str, Any]] = []
    unequal: dict[str, int] = {}
    for _ in range(options.repeats):
        first: np.ndarray | None = None
        for system in options.systems:
            rows, pairs = chain(system, folder, sources, options.threshold, options.peers_python)
            runs += rows
            if first is None:
                first = pairs
            else:
                unequal[system] = max(unequal.get(system, 0), unlike(first, pairs))
    text = markdown(options, runs, unequal)
    results: Path = options.results
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(text)
    print(text)
    return 0 if all(passed for _, passed in verdicts(runs, unequal)) else 1


def _options(argv: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_count, default=ROWS, help="of the left side")
    parser.add_argument("--threshold", type=parse_count, default=THRESHOLD, help="rows of the largest leaf")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--quick", action="store_true", help="2M x 500k once, leaves of 100k")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    parser.add_argument(
        "--results", type=Path, help="default: docs/benchmarks/acid.md for a whole run, else --folder"
    )
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python")),
    )
    options = parser.parse_args(argv)
    if options.quick:
        options.rows, options.threshold, options.repeats = QUICK_ROWS, QUICK_THRESHOLD, 1
    if options.rows <= 0 or options.rows % FILE_ROWS:
        parser.error("--rows: give whole millions, such as 20M")
    whole = (options.rows, options.threshold, options.repeats) == (ROWS, THRESHOLD, REPEATS)
    if options.results is None:
        options.results = (
            KEPT if whole and options.systems == list(SYSTEMS) else options.folder / "results" / "acid.md"
        )
    return options


if __name__ == "__main__":
    sys.exit(main())
