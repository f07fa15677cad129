"""`make bench-delta`: clustering and upsert of Delta tables beside delta-rs, on two cores under 4 GiB.

    python -m benchmarks.delta                      2M to 80M rows: results go to docs/
    python -m benchmarks.delta --quick              2M rows
    python -m benchmarks.delta --tasks merge --rows 20M --systems hipslake --repeats 1

A whole run takes hours. Each run is kept in the folder as it ends, and `--resume` goes on from there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import delta_page, machine, sweep
from benchmarks.delta_runs import SYSTEMS, DeltaBench
from benchmarks.processes import ROOT
from benchmarks.runs import Cell
from benchmarks.sizes import format_count, parse_count
from benchmarks.table_runs import HERE, HERE_ROWS, Limits, title

SIZES = [2_000_000, 5_000_000, 20_000_000, 80_000_000]
QUICK = [2_000_000]
REPEATS = 3
SHORT_ROWS = 2_000_000  # above, one run says enough, since sizes bear each other out
WARM_UP_ROWS = 100_000
OURS = ("pyspark", "pyarrow", "numpy")
PEERS = ("deltalake", "pyarrow")
DISK_BYTES_PER_ROW = 350  # source, output, spill and shuffle of one system


def cells(options: Any) -> list[Cell]:
    """All runs that are asked for."""
    found = sweep.cells_of(
        SYSTEMS,
        lambda task: options.rows,
        lambda task, rows: REPEATS if rows <= SHORT_ROWS else 1,
        {HERE: HERE_ROWS},
        options,
    )
    return list(found)


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    folder: Path = options.folder
    sweep.prepare(folder, options.limits.cores, max(options.rows) * DISK_BYTES_PER_ROW)
    bench = DeltaBench(folder, options.peers_python, options.limits)
    file = folder / "delta_runs.json"
    asked = cells(options)
    runs = sweep.swept(
        file,
        asked,
        bench.run,
        title,
        lambda: sweep.warm_up(asked, SYSTEMS, bench.run, WARM_UP_ROWS),
        options,
    )
    judged = delta_page.verdicts(runs, options.limits.seconds)
    result = {
        "machine": machine.describe(options.peers_python, ours=OURS, peers=PEERS),
        "limits": options.limits._asdict(),
        "runs": runs,
        "verdicts": [verdict._asdict() for verdict in judged],
    }
    return sweep.conclude(delta_page, result, options.results)


def _options(argv: list[str] | None) -> Any:
    parser = sweep.parser_of(__doc__)
    everybody = list(dict.fromkeys(system for systems in SYSTEMS.values() for system in systems))
    sizes = ", ".join(map(format_count, SIZES))
    parser.add_argument("--rows", type=parse_count, nargs="+", default=SIZES, help=f"default: {sizes}")
    parser.add_argument("--tasks", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--systems", nargs="+", choices=everybody, help="default: all")
    parser.add_argument("--quick", action="store_true", help="2M rows, one run of each")
    here = str(ROOT / ".venv-peers" / "bin" / "python")
    sweep.add_options(
        parser,
        Limits(),
        repeats=f"runs of each; default: {REPEATS}, but 1 above {format_count(SHORT_ROWS)} rows",
        peers_python=os.environ.get("HIPSLAKE_PEERS_PYTHON", here),
    )
    options: Any = parser.parse_args(argv)
    options.limits = Limits(ceiling=options.ceiling, seconds=options.seconds)
    if options.quick:
        options.rows, options.repeats = QUICK, 1
    whole = (options.rows, options.tasks, options.systems) == (SIZES, list(SYSTEMS), None)
    sweep.settle_folders(options, whole=whole)
    return options


if __name__ == "__main__":
    sys.exit(main())
