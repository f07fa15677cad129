"""`make bench-cube`: builds and queries of cubes beside kartothek 5.3.0, on two cores under 4 GiB.

    python -m benchmarks.cube                            2M to 50M cells: results go to docs/
    python -m benchmarks.cube --quick                    2M cells, one run of each
    python -m benchmarks.cube --cells 20M --tasks build full --resume       a piece of the sweep

A whole run takes half an hour. Each run is kept in the folder as it ends, and `--resume` goes on from there:
so pieces of a sweep may be run on their own, and a whole run with `--resume` makes the page of all of them.
kartothek is of Python 3.8: `make peers-cube` makes its environment. Without, hipslake is measured alone.
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

from benchmarks import cube_page, machine
from benchmarks.cube_bars import verdicts
from benchmarks.cube_runs import PEERS, SMALL_CELLS, SMALL_TASKS, SYSTEMS, TASKS, Bench, Limits, title
from benchmarks.cube_task import BUILD, FULL
from benchmarks.processes import ROOT
from benchmarks.runs import Cell, run_all
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
    os.sched_setaffinity(
        0, sorted(os.sched_getaffinity(0))[: options.limits.cores]
    )  # all that is started has it
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    need, free = max(options.cells) * DISK_BYTES_PER_CELL, shutil.disk_usage(folder).free
    if free < need:
        raise SystemExit(
            f"{folder}: {free / 1e9:.0f} GB are free and {need / 1e9:.0f} are needed; use --folder"
        )
    if set(options.systems) & set(PEERS) and not os.access(options.peers_python, os.X_OK):
        print(f"hipslake: no kartothek at {options.peers_python} (make peers-cube), so hipslake runs alone")
        options.systems = [system for system in options.systems if system not in PEERS]
    bench = Bench(folder, options.peers_python, options.limits)
    file = folder / "cube_runs.json"
    kept = json.loads(file.read_text()) if options.resume and file.exists() else []
    if not options.no_warm_up:
        warm_up(bench, options)
    runs = run_all(cells_of(options), bench.run, title, kept, file)
    result = {
        "machine": machine.describe(options.peers_python, ours=OURS, peers=PEER_PACKAGES),
        "limits": options.limits._asdict(),
        "runs": runs,
        "verdicts": [verdict._asdict() for verdict in verdicts(runs)],
    }
    cube_page.write(result, options.results)
    print(cube_page.markdown(result))
    print(f"Kept in {options.results}: {cube_page.NAME}.json, {cube_page.NAME}.md, {cube_page.NAME}.png")
    return 0 if all(verdict["passed"] for verdict in result["verdicts"]) else 1


def _options(argv: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = ", ".join(map(format_count, SIZES))
    parser.add_argument("--cells", type=parse_count, nargs="+", default=SIZES, help=f"default: {sizes}")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument(
        "--repeats",
        type=int,
        help=f"runs of each; default: {REPEATS}, but 1 above {format_count(REPEATED_CELLS)} cells",
    )
    parser.add_argument("--quick", action="store_true", help="2M cells, one run of each")
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
        default=os.environ.get(
            "HIPSLAKE_CUBE_PEERS_PYTHON", str(ROOT / ".venv-peers-cube" / "bin" / "python")
        ),
    )
    options: Any = parser.parse_args(argv)
    options.folder = options.folder.resolve()
    options.limits = Limits(ceiling=options.ceiling, seconds=options.seconds)
    if options.quick:
        options.cells, options.repeats = QUICK, 1
    whole = (options.cells, options.tasks, options.systems) == (SIZES, list(TASKS), list(SYSTEMS))
    if options.results is None:
        options.results = ROOT / "docs" / "benchmarks" if whole else options.folder / "results"
    return options


if __name__ == "__main__":
    sys.exit(main())
