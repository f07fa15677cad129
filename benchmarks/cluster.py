"""What a Spark cluster costs, beside local cores: `make bench-cluster`.

A standalone cluster of two workers with one core each, on loopback, takes turns with `local[2]`: one Spark
step that does nothing, an ingest, and a cross-match of what another ingest has published. Both get the same
library, zipped, as Airflow's operators send it. The workers of another such cluster have an address each, so
that the library takes them for two machines, and executors serve rows of an ingest to each other. Ends with
exit code 1 if a bar is missed, of the medians: twice the local time for the step, whole; 1.25 times for the
ingest and 1.15 times for the cross-match, without what starting takes; or if what was written is not the
same.

    python -m benchmarks.cluster                          20M rows: results go to docs/benchmarks/cluster.md
    python -m benchmarks.cluster --rows 2M --tasks step ingest --repeats 3     to --folder
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from hipslake.spark.settings import launch_settings

from benchmarks import crossmatch, machine, step_cost
from benchmarks.ingest import Bench
from benchmarks.leaf_files import LeafFiles
from benchmarks.processes import ROOT, environment, run_measured
from benchmarks.runs import read_into_memory
from benchmarks.sizes import format_count, parse_count, parse_millions
from benchmarks.standalone import LOOPBACK, Standalone, standalone

CORES = 2
LOCAL_MASTER = f"local[{CORES},4]"
WORKER_MEMORY = "3g"
LOCAL, CLUSTER, APART = "local cores", "cluster", "cluster of two addresses"
PLACES = (LOCAL, CLUSTER, APART)
STEP, INGEST, CROSSMATCH = "step", "ingest", "crossmatch"
BARS = {STEP: 2.0, INGEST: 1.25, CROSSMATCH: 1.15}
TITLES = {
    STEP: "one empty Spark step, whole",
    INGEST: "ingest, session up",
    CROSSMATCH: "cross-match, session up",
}
JUDGED = {STEP: "whole_seconds", INGEST: "seconds", CROSSMATCH: "seconds"}

ROWS, REPEATS, THRESHOLD = 20_000_000, 5, 1_000_000
KEPT = ROOT / "docs" / "benchmarks" / "cluster.md"
DRIVER_VARIABLES = {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}

Run = dict[str, Any]


class Verdict(NamedTuple):
    """One bar: a cluster's median over that of local cores."""

    what: str
    ratio: float
    most: float

    @property
    def passed(self) -> bool:
        """Whether the bar is met."""
        return self.ratio <= self.most


class Turns:
    """The tasks, each on one master and then on the other."""

    def __init__(self, folder: Path, clusters: dict[str, Standalone], threshold: int) -> None:
        self._folder = folder
        self._clusters = clusters
        self._threshold = threshold
        self._library: Path | None = None

    def wait_until_idle(self) -> None:
        """Wait until no cluster has an executor left."""
        for cluster in self._clusters.values():
            cluster.wait_until_idle()

    def _master(self, where: str) -> str:
        return self._clusters[where].url if where in self._clusters else LOCAL_MASTER

    def step(self, where: str) -> Run:
        """Run the empty step."""
        from hipslake_airflow.hooks.library import build_library_archive

        if self._library is None:
            self._library = build_library_archive(self._folder)
        master = self._master(where)
        way = step_cost.Way(
            where,
            launch_settings(master),
            master=master,
            library=self._library,
            variables=DRIVER_VARIABLES,
        )
        told = step_cost.once(way, self._folder)
        phases = {phase: told[phase] for phase in step_cost.PHASES}
        return {"whole_seconds": told["seconds"], "phases": phases}

    def ingest(self, where: str, rows: int) -> Run:
        """Ingest a synthetic survey."""
        source = Bench(self._folder, sys.executable, self._threshold).source(rows)
        read_into_memory(source)
        report, run = self._measured(
            where, "benchmarks.hipslake_ingest", f"--source={source}", f"--threshold={self._threshold}"
        )
        written = LeafFiles.of(Path(report["dataset"]))
        return run | {"written": sum(written.rows.values()), "files": len(written.rows)}

    def crossmatch(self, where: str, warehouse: Path) -> Run:
        """Match two catalogs of a warehouse."""
        report, run = self._measured(where, "benchmarks.hipslake_crossmatch", f"--warehouse={warehouse}")
        files = list(Path(report["dataset"]).rglob("*.parquet"))
        shutil.rmtree(warehouse / "catalogs" / "a_x_b")
        return run | {"written": report["rows"], "files": len(files)}

    def _measured(self, where: str, module: str, *arguments: str) -> tuple[dict[str, Any], Run]:
        output, report_file = self._folder / "output", self._folder / "report.json"
        shutil.rmtree(output, ignore_errors=True)
        variables = environment() | DRIVER_VARIABLES | {"HIPSLAKE_SPARK_MASTER": self._master(where)}
        command = [sys.executable, "-m", module, *arguments, f"--output={output}", f"--report={report_file}"]
        os.sync()  # nobody pays for what another has left to write
        usage = run_measured(command, log=self._folder / f"cluster-{module}.log", variables=variables)
        report: dict[str, Any] = json.loads(report_file.read_text())
        phases = {
            f"{step}: {phase}": seconds
            for step, reported in report["reported"].items()
            for phase, seconds in reported.items()
        }
        return report, {
            "seconds": report["seconds"],
            "whole_seconds": usage.seconds - report["verify"],
            "phases": phases,
        }


def measure(options: Any, folder: Path) -> list[Run]:
    """Run every task in turns; return the runs."""
    runs: list[Run] = []
    with ExitStack() as stack:
        clusters = {
            where: stack.enter_context(
                standalone(folder / place, workers=CORES, memory=WORKER_MEMORY, apart=where == APART)
            )
            for where, place in ((CLUSTER, "cluster"), (APART, "cluster-apart"))
            if where in options.places
        }
        turns = Turns(folder, clusters, options.threshold)
        for task in options.tasks:
            for rows in options.rows if task != STEP else [0]:
                warehouse = (
                    crossmatch.publish(folder, rows, options.threshold) if task == CROSSMATCH else None
                )
                if task == STEP or options.warm_up:  # byte code and shared libraries come from disk once
                    for where in options.places:
                        _one(turns, task, where, rows, warehouse)
                for repeat in range(options.repeats):
                    for where in options.places:
                        run = _one(turns, task, where, rows, warehouse)
                        runs.append({"task": task, "where": where, "rows": rows, "repeat": repeat} | run)
                        print(_line(runs[-1]), flush=True)
    return runs


def _one(turns: Turns, task: str, where: str, rows: int, warehouse: Path | None) -> Run:
    turns.wait_until_idle()
    if task == STEP:
        run = turns.step(where)
    elif task == INGEST:
        run = turns.ingest(where, rows)
    else:
        assert warehouse is not None
        run = turns.crossmatch(where, warehouse)
    return run | {"load": os.getloadavg()[0]}


def _line(run: Run) -> str:
    up = f"{run['seconds']:.1f} s up, " if "seconds" in run else ""
    rows = f" {format_count(run['rows'])}" if run["rows"] else ""
    return (
        f"{run['task']}{rows}, {run['where']}: {up}{run['whole_seconds']:.1f} s whole, load {run['load']:.1f}"
    )


def verdicts(runs: list[Run]) -> list[Verdict]:
    """Judge the medians over the repeats."""
    found = []
    for task, rows in _tasks(runs):
        times = {
            where: median(run[JUDGED[task]] for run in _cell(runs, task, rows, where))
            for where in _places(runs)
        }
        size = f"{format_count(rows)} rows, " if rows else ""
        for where in (CLUSTER, APART):
            if where in times and LOCAL in times:
                what = f"{size}{TITLES[task]}: {where}"
                found.append(Verdict(what, times[where] / times[LOCAL], BARS[task]))
    return found


def _tasks(runs: list[Run]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((run["task"], run["rows"]) for run in runs))


def _places(runs: list[Run]) -> list[str]:
    return [where for where in PLACES if any(run["where"] == where for run in runs)]


def _cell(runs: list[Run], task: str, rows: int, where: str) -> list[Run]:
    return [run for run in runs if (run["task"], run["rows"], run["where"]) == (task, rows, where)]


def unequal(runs: list[Run]) -> list[str]:
    """What is not the same on both masters: rows and files that were written."""
    told = []
    for task, rows in _tasks(runs):
        written = {
            (run.get("written"), run.get("files"))
            for run in runs
            if (run["task"], run["rows"]) == (task, rows)
        }
        if len(written) > 1:
            told.append(f"{task}, {format_count(rows)} rows: (rows, files) written are {sorted(written)}")
    return told


def page(runs: list[Run]) -> str:
    """The page of the documentation."""
    lines = [
        "# A Spark cluster beside local cores",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {machine.described_in_a_line()}. Made by `make bench-cluster`.",
        "",
        f"Spark standalone on loopback, two workers with one core each, in turns with `{LOCAL_MASTER}`. The "
        "library travels with each job. *Up* leaves out what starting takes: interpreters, the session, its "
        "executors and Python workers. The workers of the *cluster of two addresses* are taken for two "
        "machines: each serves the other its rows, by a socket. On the other cluster executors find that "
        "they are on the driver's machine, and rows go through its files. *Load* is how many processes ran "
        "or waited in the minute before the end of a run, its own among them. Medians.",
        "",
        "| task | on | repeats | up, s | whole, s | load |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for task, rows in _tasks(runs):
        for where in _places(runs):
            cell = _cell(runs, task, rows, where)
            up = f"{median(run['seconds'] for run in cell):.1f}" if task != STEP else ""
            size = f" of {format_count(rows)} rows" if rows else ""
            lines.append(
                f"| {TITLES[task].split(',')[0]}{size} | {where} | {len(cell)} | {up} "
                f"| {median(run['whole_seconds'] for run in cell):.1f} "
                f"| {median(run['load'] for run in cell):.0f} |"
            )
    lines += ["", "## Bars", "", "| cluster over local cores | measured | wanted | |", "|---|---:|---:|---|"]
    for verdict in verdicts(runs):
        passed = "pass" if verdict.passed else "**FAIL**"
        lines.append(f"| {verdict.what} | {verdict.ratio:.2f} | <= {verdict.most} | {passed} |")
    lines += ["", "## Phases", "", "Seconds, medians."]
    for task, rows in _tasks(runs):
        size = f", {format_count(rows)} rows" if rows else ""
        places = _places(runs)
        lines += ["", f"| {task}{size} | {' | '.join(places)} |", f"|---|{'---:|' * len(places)}"]
        cells = [_cell(runs, task, rows, where) for where in places]
        for phase in cells[0][0]["phases"]:
            times = [median(run["phases"].get(phase, 0.0) for run in cell) for cell in cells]
            if max(times) >= 0.05:
                told = " | ".join(f"{seconds:.1f}" for seconds in times)
                lines.append(f"| {phase.replace('_', ' ')} | {told} |")
    return "\n".join(lines) + "\n"


def is_whole(options: Any) -> bool:
    """Whether all was measured that the page tells of."""
    sized = options.rows == [ROWS] and options.threshold == THRESHOLD and options.repeats >= REPEATS
    return sized and set(options.tasks) == set(BARS) and set(options.places) == set(PLACES)


def main(argv: list[str] | None = None) -> int:
    """Measure, print the page, and keep it in the documentation if all of it was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_millions, nargs="+", default=[ROWS])
    parser.add_argument("--tasks", nargs="+", choices=list(BARS), default=list(BARS))
    parser.add_argument("--places", nargs="+", choices=PLACES, default=list(PLACES))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--threshold", type=parse_count, default=THRESHOLD, help="rows of the largest leaf")
    parser.add_argument("--warm-up", action="store_true", help="run each task once before it counts")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    options: Any = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # not without the clusters
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # inherited by all that is started
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    runs = measure(options, folder)
    (folder / "cluster_runs.json").write_text(json.dumps(runs, indent=1) + "\n")
    shutil.rmtree(folder / "output", ignore_errors=True)
    text = page(runs)
    (KEPT if is_whole(options) else folder / "cluster.md").write_text(text)
    print(text)
    for line in (wrong := unequal(runs)):
        print(f"NO   {line}")
    return int(bool(wrong) or not all(verdict.passed for verdict in verdicts(runs)))


if __name__ == "__main__":
    sys.exit(main())
