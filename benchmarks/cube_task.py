"""What all programs of the cube benchmark share: the cube, the queries, their command line, and the report.

Runs in the project's environment and in kartothek's, which is one of Python 3.8.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.stopwatch import Stopwatch

EPOCHS, PIXELS, NIGHTS, KINDS = 10, 48, 960, 8
SEED = "detections"
DATASETS = ("detections", "photometry", "quality", "objects")
DIMENSIONS = ("source_id", "epoch")
PARTITION = "pixel"
INDEXED = ("kind", "night")
BUILD, FULL, FRAME, SELECTIVE = "build", "full", "frame", "selective"

# What a query asks, in the words of `Cube.query`; conditions are equal to a value.
QUERIES: dict[str, dict[str, Any]] = {
    FULL: {},
    "restricted": {"conditions": {"good": True}},
    "groups": {"columns": ["flux", "parallax"], "partition_by": ["kind"]},
    "projection": {"columns": ["parallax"], "dimension_columns": ["source_id"]},
    SELECTIVE: {"conditions": {"night": 205}},
    FRAME: {},
}
IN_MEMORY = (FRAME, SELECTIVE)  # asked for as one pandas frame; the others are written as Parquet


def perform(start: Callable[[Any], Callable[[Any, Stopwatch], None]]) -> None:
    """Read the command line, perform the task that it names, and write the report.

    Parameters
    ----------
    start : callable
        Takes the options, gets ready, and returns what performs the task; only that is timed.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=[BUILD, *QUERIES], required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--source", type=Path, required=True, help="folder of Parquet files per dataset")
    parser.add_argument("--cube", type=Path, required=True, help="folder of the cube")
    parser.add_argument("--output", type=Path, required=True, help="folder that is there, and empty")
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    work = start(options)
    watch = Stopwatch()
    work(options, watch)
    report = {"seconds": sum(watch.phases.values()), "phases": watch.phases}
    options.report.write_text(json.dumps(report, indent=2))


def files_of(source: Path, dataset: str) -> list[str]:
    """The Parquet files of a dataset."""
    return sorted(str(path) for path in (source / dataset).iterdir())
