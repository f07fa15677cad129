"""`make bench-tables`: sink, clustering and upsert of tables beside the peers, on two cores under 4 GiB.

    python -m benchmarks.tables                      2M to 80M rows, upserts into 10M and 80M: goes to docs/
    python -m benchmarks.tables --quick              2M rows, upsert into 1M
    python -m benchmarks.tables --tasks sink --rows 20M --systems hipslake duckdb --repeats 1

A whole run takes hours. Each run is kept in the folder as it ends, and `--resume` goes on from there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import clustering_quality as quality
from benchmarks import machine, sweep, table_page
from benchmarks.bars import Verdict
from benchmarks.processes import ROOT
from benchmarks.runs import Cell
from benchmarks.sizes import format_count, parse_count
from benchmarks.table_bars import verdicts
from benchmarks.table_runs import (
    CLUSTER,
    FEW_KEYS,
    HERE,
    HERE_ROWS,
    SYSTEMS,
    UPSERT,
    Bench,
    Limits,
    title,
)

SIZES = [2_000_000, 5_000_000, 20_000_000, 80_000_000]
UPSERT_SIZES = [1_000_000, 10_000_000]
FEW_KEYS_SIZES = [80_000_000]
QUICK, QUICK_UPSERT, QUICK_FEW_KEYS = [2_000_000], [1_000_000], [1_000_000]
REPEATS = 3
SHORT_ROWS = 2_000_000  # of a sweep: above, one run says enough, since sizes bear each other out
WARM_UP_ROWS = 100_000
OURS = ("pyspark", "pyiceberg", "pyarrow", "numpy")
PEERS = ("deltalake", "duckdb", "polars", "pyarrow", "pyiceberg")
DISK_BYTES_PER_ROW = 350  # source, output, spill and shuffle of one system


def cells(options: Any) -> list[Cell]:
    """All runs that are asked for."""
    sizes = {UPSERT: options.upsert_rows, FEW_KEYS: options.few_keys_rows}
    found = sweep.cells_of(
        SYSTEMS,
        lambda task: sizes.get(task, options.rows),
        lambda task, rows: REPEATS if task == UPSERT or rows <= SHORT_ROWS else 1,
        {HERE: HERE_ROWS},
        options,
    )
    return list(found)


def clustering_quality() -> tuple[str, list[Verdict]]:
    """Judge where rows are put by the curves, without any table; the page, and the bars."""
    results = {case.name: quality.touched(case) for case in quality.cases()}
    judged = list(quality.verdicts(results))
    bars = [Verdict(f"quality: {what}", "yes" if passed else "no", "yes", passed) for what, passed in judged]
    return quality.page(results, judged), bars


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    folder: Path = options.folder
    sweep.prepare(folder, options.limits.cores, max(options.rows) * DISK_BYTES_PER_ROW)
    bench = Bench(folder, options.peers_python, options.limits)
    file = folder / "table_runs.json"
    asked = cells(options)
    runs = sweep.swept(
        file,
        asked,
        bench.run,
        title,
        lambda: sweep.warm_up(asked, SYSTEMS, bench.run, WARM_UP_ROWS),
        options,
    )
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
    return sweep.conclude(table_page, result, options.results)


def _options(argv: list[str] | None) -> Any:
    parser = sweep.parser_of(__doc__)
    everybody = list(dict.fromkeys(system for systems in SYSTEMS.values() for system in systems))
    sizes = ", ".join(map(format_count, SIZES))
    parser.add_argument("--rows", type=parse_count, nargs="+", default=SIZES, help=f"default: {sizes}")
    parser.add_argument(
        "--upsert-rows", type=parse_count, nargs="+", default=UPSERT_SIZES, help="of the table"
    )
    parser.add_argument("--few-keys-rows", type=parse_count, nargs="+", default=FEW_KEYS_SIZES)
    parser.add_argument("--tasks", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--systems", nargs="+", choices=everybody, help="default: all")
    parser.add_argument("--quick", action="store_true", help="2M rows, upsert into 1M, one run of each")
    here = str(ROOT / ".venv-peers" / "bin" / "python")
    sweep.add_options(
        parser,
        Limits(),
        repeats=f"runs of each; default: {REPEATS}, but 1 of sweeps above {format_count(SHORT_ROWS)} rows",
        peers_python=os.environ.get("HIPSLAKE_PEERS_PYTHON", here),
    )
    options: Any = parser.parse_args(argv)
    options.limits = Limits(ceiling=options.ceiling, seconds=options.seconds)
    if options.quick:
        options.rows, options.upsert_rows, options.few_keys_rows = QUICK, QUICK_UPSERT, QUICK_FEW_KEYS
        options.repeats = 1
    asked = (options.rows, options.upsert_rows, options.few_keys_rows, options.tasks, options.systems)
    whole = asked == (SIZES, UPSERT_SIZES, FEW_KEYS_SIZES, list(SYSTEMS), None)
    sweep.settle_folders(options, whole=whole)
    return options


if __name__ == "__main__":
    sys.exit(main())
