"""What all programs of the table benchmark share: their command line, the task in numbers, and the report.

Runs in the project's environment and in the peers'.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.sizes import parse_count
from benchmarks.stopwatch import Stopwatch

SKY_ORDER = 0
SKY, SKY_SHIFT = "_healpix_0", 2 * (29 - SKY_ORDER)
TIME = "observed"
KEY = "source_id"  # of an upsert
CLUSTER_COLUMNS = ("_healpix_29", "observed", "g_mag")
LEVEL = 1  # zstd, for everybody
ROW_GROUP_ROWS = 1 << 18
GIB = 2**30
SPARE = 0.6  # of the ceiling: what a system is told to use, where it can be; the rest of it needs some too


def perform(tasks: dict[str, Callable[[Any, Stopwatch], list[str]]], argv: list[str] | None = None) -> None:
    """Read the command line, perform the task that it names, and write the report.

    Parameters
    ----------
    tasks : dict
        Name to function of the options and a stopwatch; it returns the files that it wrote.
    argv : list of str, optional
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=list(tasks), required=True)
    parser.add_argument("--source", type=Path, required=True, help="folder of Parquet files")
    parser.add_argument("--output", type=Path, required=True, help="folder that is there, and empty")
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--rows", type=parse_count, required=True, help="of the source")
    parser.add_argument("--files", type=int, default=64, help="of a clustered table, about")
    parser.add_argument("--ceiling", type=parse_count, default=4 * GIB, help="bytes of memory")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--curve", choices=["zorder", "hilbert"], default="zorder")
    writes = ["copy-on-write", "merge-on-read"]
    parser.add_argument("--write", choices=writes, default=writes[0])
    parser.add_argument("--engine", choices=["spark", "here", "sized"], default="spark")
    options: Any = parser.parse_args(argv)
    watch = Stopwatch()
    files = tasks[options.task](options, watch)
    report = {"seconds": sum(watch.phases.values()), "phases": watch.phases, "files": files}
    options.report.write_text(json.dumps(report, indent=2))


def parquet_files(folder: Path) -> list[str]:
    """All Parquet files below a folder."""
    return sorted(str(path) for path in folder.rglob("*.parquet"))
