"""`make bench-cube`: builds and queries of cubes beside kartothek 5.3.0, on two cores under 4 GiB.

    python -m benchmarks.cube                            2M to 50M cells: results go to docs/
    python -m benchmarks.cube --quick                    2M cells, one run of each
    python -m benchmarks.cube --cells 20M --tasks build full --resume       a piece of the sweep

A whole run takes half an hour. Each run is kept in the folder as it ends, and `--resume` goes on from there:
so pieces of a sweep may be run on their own, and a whole run with `--resume` makes the page of all of them.
kartothek is of Python 3.8: `make peers-cube` makes its environment. Without, hipslake is measured alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import cube_page, machine, sweep
from benchmarks.cube_bars import verdicts
from benchmarks.cube_runs import PEERS, SMALL_CELLS, SMALL_TASKS, SYSTEMS, TASKS, Bench, Limits, title
from benchmarks.cube_task import BUILD, FULL
from benchmarks.processes import ROOT
from benchmarks.runs import Cell
from benchmarks.sizes import format_count, parse_count

SIZES = [2_000_000, 5_000_000, 20_000_000, 50_000_000]
QUICK = [2_000_000]
REPEATS = 3
REPEATED_CELLS = 2_000_000  # above, one run says enough, since sizes bear each other out
WARM_UP_CELLS = 100_000
OURS = ("pyspark", "pyarrow", "numpy")
PEER_PACKAGES = ("kartothek", "dask", "distributed", "pandas", "pyarrow", "numpy")
DISK_BYTES_PER_CELL = 400  # source, cubes of all systems, blocks and an answer


def cells_of(options: Any) -> Iterator[Cell]:
    """All runs, as (task, cells, system, repeat): what is compared runs close together."""
    for cells in options.cells:
        for task in options.tasks:
            if task in SMALL_TASKS and cells > SMALL_CELLS:
                continue
            for repeat in range(options.repeats or (REPEATS if cells <= REPEATED_CELLS else 1)):
                for system in options.systems:
                    yield task, cells, system, repeat


def warm_up(bench: Bench, options: Any) -> None:
    """Run each system once, as byte code and shared libraries come from disk once."""
    for system in options.systems:
        for task in (BUILD, FULL):
            bench.run(task, system, WARM_UP_CELLS)


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    folder: Path = options.folder
    sweep.prepare(folder, options.limits.cores, max(options.cells) * DISK_BYTES_PER_CELL)
    if set(options.systems) & set(PEERS) and not os.access(options.peers_python, os.X_OK):
        print(f"hipslake: no kartothek at {options.peers_python} (make peers-cube), so hipslake runs alone")
        options.systems = [system for system in options.systems if system not in PEERS]
    bench = Bench(folder, options.peers_python, options.limits)
    file = folder / "cube_runs.json"
    runs = sweep.swept(file, cells_of(options), bench.run, title, lambda: warm_up(bench, options), options)
    result = {
        "machine": machine.describe(options.peers_python, ours=OURS, peers=PEER_PACKAGES),
        "limits": options.limits._asdict(),
        "runs": runs,
        "verdicts": [verdict._asdict() for verdict in verdicts(runs)],
    }
    return sweep.conclude(cube_page, result, options.results)


def _options(argv: list[str] | None) -> Any:
    parser = sweep.parser_of(__doc__)
    sizes = ", ".join(map(format_count, SIZES))
    parser.add_argument("--cells", type=parse_count, nargs="+", default=SIZES, help=f"default: {sizes}")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--quick", action="store_true", help="2M cells, one run of each")
    here = str(ROOT / ".venv-peers-cube" / "bin" / "python")
    sweep.add_options(
        parser,
        Limits(),
        repeats=f"runs of each; default: {REPEATS}, but 1 above {format_count(REPEATED_CELLS)} cells",
        peers_python=os.environ.get("HIPSLAKE_CUBE_PEERS_PYTHON", here),
    )
    options: Any = parser.parse_args(argv)
    options.limits = Limits(ceiling=options.ceiling, seconds=options.seconds)
    if options.quick:
        options.cells, options.repeats = QUICK, 1
    whole = (options.cells, options.tasks, options.systems) == (SIZES, list(TASKS), list(SYSTEMS))
    sweep.settle_folders(options, whole=whole)
    return options


if __name__ == "__main__":
    sys.exit(main())
