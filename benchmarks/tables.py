"""`make bench-tables`: sink, clustering and upsert of tables beside the peers, on two cores under 4 GiB.

    python -m benchmarks.tables                      2M to 80M rows, upsert into 10M: results go to docs/
    python -m benchmarks.tables --quick              2M rows, upsert into 1M
    python -m benchmarks.tables --tasks sink --rows 20M --systems hipslake duckdb --repeats 1

A whole run takes hours. Each run is kept in the folder as it ends, and `--resume` goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import clustering_quality as quality
from benchmarks import machine, table_page
from benchmarks.bars import Verdict
from benchmarks.processes import ROOT
from benchmarks.runs import run_all
from benchmarks.sizes import format_count, parse_count
from benchmarks.table_bars import verdicts
from benchmarks.table_runs import CLUSTER, HERE, HERE_ROWS, SINK, SYSTEMS, UPSERT, Bench, Limits, title

SIZES = [2_000_000, 5_000_000, 20_000_000, 80_000_000]
UPSERT_SIZES = [1_000_000, 10_000_000]
QUICK, QUICK_UPSERT = [2_000_000], [1_000_000]
REPEATS = 3
SHORT_ROWS = 2_000_000  # of a sweep: above, one run says enough, since sizes bear each other out
WARM_UP_ROWS = 100_000
OURS = ("pyspark", "pyiceberg", "pyarrow", "numpy")
PEERS = ("deltalake", "duckdb", "polars", "pyarrow", "pyiceberg")
DISK_BYTES_PER_ROW = 350  # source, output, spill and shuffle of one system


def cells(options: Any) -> Iterator[tuple[str, int, str, int]]:
    """All runs, as (task, rows, system, repeat): what is compared runs close together."""
    for task in options.tasks:
        for rows in options.upsert_rows if task == UPSERT else options.rows:
            default = REPEATS if task == UPSERT or rows <= SHORT_ROWS else 1
            for repeat in range(options.repeats or default):
                for system in SYSTEMS[task]:
                    if system == HERE and rows > HERE_ROWS:
                        continue
                    if options.systems is None or system in options.systems:
                        yield task, rows, system, repeat


def warm_up(bench: Bench, options: Any) -> None:
    """Run each system once, as byte code and shared libraries come from disk once."""
    for system in dict.fromkeys(system for _, _, system, _ in cells(options)):
        task = next(
            task for task in (SINK, CLUSTER, UPSERT) if system in SYSTEMS[task] and task in options.tasks
        )
        bench.run(task, system, WARM_UP_ROWS)


def clustering_quality() -> tuple[str, list[Verdict]]:
    """Judge where rows are put by the curves, without any table; the page, and the bars."""
    results = {case.name: quality.touched(case) for case in quality.cases()}
    judged = list(quality.verdicts(results))
    bars = [Verdict(f"quality: {what}", "yes" if passed else "no", "yes", passed) for what, passed in judged]
    return quality.page(results, judged), bars


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    os.sched_setaffinity(
        0, sorted(os.sched_getaffinity(0))[: options.limits.cores]
    )  # all that is started has it
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    need, free = max(options.rows) * DISK_BYTES_PER_ROW, shutil.disk_usage(folder).free
    if free < need:
        raise SystemExit(
            f"{folder}: {free / 1e9:.0f} GB are free and {need / 1e9:.0f} are needed; use --folder"
        )
    bench = Bench(folder, options.peers_python, options.limits)
    file = folder / "table_runs.json"
    kept = json.loads(file.read_text()) if options.resume and file.exists() else []
    if not options.no_warm_up:
        warm_up(bench, options)
    runs = run_all(cells(options), bench.run, title, kept, file)
    judged = list(verdicts(runs))
    if CLUSTER in options.tasks:
        page, bars = clustering_quality()
        judged += bars
        options.results.mkdir(parents=True, exist_ok=True)
        (options.results / quality.KEPT.name).write_text(page)
    result = {
        "machine": machine.describe(options.peers_python, ours=OURS, peers=PEERS),
        "limits": options.limits._asdict(),
        "runs": runs,
        "verdicts": [verdict._asdict() for verdict in judged],
    }
    table_page.write(result, options.results)
    print(table_page.markdown(result))
    print(f"Kept in {options.results}: {table_page.NAME}.json, {table_page.NAME}.md, {table_page.NAME}.png")
    return 0 if all(verdict["passed"] for verdict in result["verdicts"]) else 1


def _options(argv: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everybody = list(dict.fromkeys(system for systems in SYSTEMS.values() for system in systems))
    sizes = ", ".join(map(format_count, SIZES))
    parser.add_argument("--rows", type=parse_count, nargs="+", default=SIZES, help=f"default: {sizes}")
    parser.add_argument(
        "--upsert-rows", type=parse_count, nargs="+", default=UPSERT_SIZES, help="of the table"
    )
    parser.add_argument("--tasks", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--systems", nargs="+", choices=everybody, help="default: all")
    parser.add_argument(
        "--repeats",
        type=int,
        help=f"runs of each cell; default: {REPEATS}, but 1 of sweeps above {format_count(SHORT_ROWS)} rows",
    )
    parser.add_argument("--quick", action="store_true", help="2M rows, upsert into 1M, one run of each")
    parser.add_argument(
        "--ceiling", type=parse_count, default=Limits().ceiling, help="bytes of memory, of each"
    )
    parser.add_argument("--seconds", type=float, default=Limits().seconds, help="that a run may take")
    parser.add_argument("--resume", action="store_true", help="keep the runs that are in the folder")
    parser.add_argument("--no-warm-up", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / ".data" / "bench", help="for data and outputs")
    parser.add_argument(
        "--results", type=Path, help="default: docs/benchmarks for a whole run, else --folder"
    )
    parser.add_argument(
        "--peers-python",
        default=os.environ.get("HIPSLAKE_PEERS_PYTHON", str(ROOT / ".venv-peers" / "bin" / "python")),
    )
    options: Any = parser.parse_args(argv)
    options.folder = options.folder.resolve()
    options.limits = Limits(ceiling=options.ceiling, seconds=options.seconds)
    if options.quick:
        options.rows, options.upsert_rows, options.repeats = QUICK, QUICK_UPSERT, 1
    whole = (options.rows, options.upsert_rows, options.tasks, options.systems) == (
        SIZES,
        UPSERT_SIZES,
        list(SYSTEMS),
        None,
    )
    if options.results is None:
        options.results = ROOT / "docs" / "benchmarks" if whole else options.folder / "results"
    return options


if __name__ == "__main__":
    sys.exit(main())
