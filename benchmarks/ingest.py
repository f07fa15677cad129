"""`make bench-ingest`: our ingest beside the two-process program and hats-import, on two cores.

python -m benchmarks.ingest                      20M and 80M rows, zstd-1 and zstd-15: results go to docs/
python -m benchmarks.ingest --quick              2M rows, zstd-1
python -m benchmarks.ingest --rows 20M --levels 1 --systems two_process hats_import
python -m benchmarks.ingest --step-cost          only the fixed cost of one Spark step
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import bars, machine, reporting, step_cost
from benchmarks.leaf_files import LeafFiles, differences
from benchmarks.milky_way import FILE_ROWS, write_survey
from benchmarks.processes import ROOT, Usage, run_measured
from benchmarks.sizes import format_count, parse_count, parse_millions

CORES = 2
SIZES = [20_000_000, 80_000_000]
LEVELS = [1, 15]
REPEATS = 3  # of which the median is judged, except where a run takes minutes:
LONG_ROWS, LONG_LEVEL = 20_000_000, 1  # above both
MODULES = {
    bars.LIMIT: ["benchmarks.two_process"],
    bars.OURS: ["benchmarks.hipslake_ingest"],
    bars.PROGRAM: ["benchmarks.hipslake_program", "ingest"],
    bars.PEER: ["benchmarks.hats_import_peer"],
}
DISK_BYTES_PER_ROW = 270  # source, intermediate files and output of one system; outputs are removed in turn


class Bench:
    """One benchmark: its sources, and the systems that take turns on them."""

    def __init__(self, folder: Path, peers_python: str, threshold: int) -> None:
        self.folder = folder
        self.threshold = threshold
        self._pythons = {bars.PEER: peers_python}

    def source(self, rows: int) -> Path:
        """Return a folder with that many stars; sizes share their files as hard links."""
        folder = self.folder / f"stars_{format_count(rows)}"
        folder.mkdir(parents=True, exist_ok=True)
        for path in write_survey(self.folder / "stars", rows):
            if not (folder / path.name).exists():
                (folder / path.name).hardlink_to(path)
        return folder

    def run(self, system: str, rows: int, level: int) -> tuple[dict[str, Any], LeafFiles]:
        """Run one system once; return its measures and what it wrote. The output is removed."""
        source = self.source(rows)
        output, report_file = self.folder / "output", self.folder / "report.json"
        shutil.rmtree(output, ignore_errors=True)
        report_file.unlink(missing_ok=True)
        command = [self._pythons.get(system, sys.executable), "-m", *MODULES[system]]
        command += [f"--source={source}", f"--output={output}", f"--report={report_file}"]
        command += [f"--threshold={self.threshold}", f"--level={level}"]
        os.sync()  # nobody pays for what another has left to write
        usage = run_measured(command, log=self.folder / f"{system}.log")
        report: dict[str, Any] = json.loads(report_file.read_text())
        written = LeafFiles.of(Path(report["dataset"]))
        shutil.rmtree(output)
        return _measures(system, rows, level, usage, report, written), written


def _measures(
    system: str, rows: int, level: int, usage: Usage, report: dict[str, Any], written: LeafFiles
) -> dict[str, Any]:
    verify = report.get("verify", 0.0)
    return {
        "system": system,
        "rows": rows,
        "level": level,
        "seconds": report["seconds"],  # without starting interpreters and Spark
        "whole_seconds": usage.seconds - verify,
        "verify_seconds": verify,
        "cpu_seconds": usage.cpu_seconds,
        "peak_bytes": usage.peak_bytes,
        "phases": report["phases"],
        "report": {key: report[key] for key in ("wall", "reported") if key in report},
        "leaves": len(written.rows),
        "rows_written": sum(written.rows.values()),
        "output_bytes": written.bytes,
        "unequal": [],
    }


def run_all(
    bench: Bench, sizes: list[int], levels: list[int], systems: list[str], repeats: int | None
) -> list[Any]:
    """Run every cell, and compare what the systems wrote.

    What is compared runs close together, since a machine has better and worse quarters of an hour: the
    systems one after the other, and the sizes by turns.
    """
    runs = []
    for level in levels:
        for repeat in range(repeats or REPEATS):
            for rows in sizes:
                is_long = rows > LONG_ROWS and level > LONG_LEVEL
                if repeat == 0 or repeats or not is_long:
                    runs += _repeat(bench, rows, level, systems, repeat)
    return sorted(runs, key=lambda run: (run["rows"], run["level"], run["repeat"]))


def _repeat(bench: Bench, rows: int, level: int, systems: list[str], repeat: int) -> list[Any]:
    """Run the systems once each."""
    runs: list[Any] = []
    first: LeafFiles | None = None
    for system in systems:
        print(f"{format_count(rows)} rows, zstd-{level}, {system}", end=" ", flush=True)
        measures, written = bench.run(system, rows, level)
        if measures["rows_written"] != rows:
            measures["unequal"].append(f"{system} wrote {measures['rows_written']} of {rows} rows")
        if first is not None:
            told = differences(first, written)
            measures["unequal"] += [f"{systems[0]} and {system}: {line}" for line in told]
        first = first or written
        runs.append({**measures, "repeat": repeat})
        print(
            f"{measures['seconds']:.1f} s, whole process {measures['whole_seconds']:.1f} s",
            flush=True,
        )
    return runs


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # inherited by all that is started
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if options.step_cost:
        print(step_cost.table(step_cost.measure(folder, repeats=options.repeats or 3, each=options.each)))
        return 0
    need, free = max(options.rows) * DISK_BYTES_PER_ROW, shutil.disk_usage(folder).free
    if free < need:
        raise SystemExit(
            f"{folder}: {free / 1e9:.0f} GB are free and {need / 1e9:.0f} are needed; use --folder"
        )
    bench = Bench(folder, options.peers_python, options.threshold)
    if not options.no_warm_up:
        for system in options.systems:  # byte code and shared libraries come from disk once
            bench.run(system, FILE_ROWS, 1)
    result = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine.describe(options.peers_python),
        "threshold_rows": options.threshold,
        "runs": run_all(bench, options.rows, options.levels, options.systems, options.repeats),
        "step_cost": step_cost.measure(folder, repeats=3, each=False) if bars.OURS in options.systems else [],
    }
    result["verdicts"] = [verdict._asdict() for verdict in bars.verdicts(result["runs"])]
    reporting.write(result, options.results)
    print(reporting.markdown(result))
    print(f"Kept in {options.results}: ingest.json, ingest.md, ingest.png")
    return 0 if all(verdict["passed"] for verdict in result["verdicts"]) else 1


def _options(argv: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_millions, nargs="+", default=SIZES, help="default: 20M 80M")
    parser.add_argument("--levels", type=int, nargs="+", default=LEVELS, help="zstd levels; default: 1 15")
    parser.add_argument("--systems", nargs="+", choices=list(MODULES), default=list(MODULES))
    parser.add_argument(
        "--repeats",
        type=int,
        help=f"runs of each cell, of which medians are judged; default: {REPEATS}, and 1 for more than "
        f"{format_count(LONG_ROWS)} rows above zstd-{LONG_LEVEL}",
    )
    parser.add_argument("--threshold", type=parse_count, default=1_000_000, help="rows of the largest leaf")
    parser.add_argument("--quick", action="store_true", help="2M rows at zstd-1, leaves of 100k")
    parser.add_argument(
        "--step-cost", action="store_true", help="measure the fixed cost of a Spark step, only"
    )
    parser.add_argument(
        "--each", action="store_true", help="with --step-cost: leave out one setting at a time"
    )
    parser.add_argument("--no-warm-up", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    parser.add_argument(
        "--results", type=Path, help="default: docs/benchmarks for a whole run, else --folder"
    )
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python")),
    )
    options = parser.parse_args(argv)
    if options.quick:
        options.rows, options.levels, options.threshold = [2_000_000], [1], 100_000
    whole = options.rows == SIZES and options.levels == LEVELS and options.systems == list(MODULES)
    if options.results is None:
        options.results = ROOT / "docs" / "benchmarks" if whole else options.folder / "results"
    return options


if __name__ == "__main__":
    sys.exit(main())
