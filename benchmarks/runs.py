"""What benchmarks of many systems share: how a run may end, which runs are kept, and their medians.

A run is a dictionary: `task`, `system`, `rows` and `repeat` say which; `outcome` how it ended, `told` why, if
it came to no end; the rest are measures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.processes import CeilingError, ProgramError, TimeLimitError, Usage

GIB = 2**30
DONE, OVER, LATE, FAILED = "done", "over the ceiling", "over the time limit", "failed"
_SHOWN_LINES = 3
_PIECE = 16 << 20  # bytes that are read at once

Run = dict[str, Any]
Cell = tuple[str, int, str, int]  # task, rows, system, repeat


def run_all(
    cells: Iterable[Cell],
    perform: Callable[[str, str, int], Run],
    title: Callable[[Run], str],
    kept: list[Run],
    file: Path,
) -> list[Run]:
    """Run every cell that is not kept; a system that came to no end is not asked again, nor for more rows.

    Parameters
    ----------
    cells : iterable of Cell
    perform : callable
        Takes task, system and rows; gives the measures.
    title : callable
        A run, for the log.
    kept : list of Run
        Runs of before.
    file : Path
        Takes the runs as they end.
    """
    runs = list(kept)
    known = {(run["task"], run["rows"], run["system"], run["repeat"]) for run in runs}
    for task, rows, system, repeat in cells:
        if (task, rows, system, repeat) in known or _gave_up(runs, task, rows, system):
            continue
        runs.append({**perform(task, system, rows), "repeat": repeat})
        file.write_text(json.dumps(runs, indent=1) + "\n")
        print(title(runs[-1]), flush=True)
    return runs


def _gave_up(runs: list[Run], task: str, rows: int, system: str) -> bool:
    ended = [
        run for run in runs if run["task"] == task and run["system"] == system and run["outcome"] != DONE
    ]
    return any(run["rows"] < rows or (run["rows"] == rows and "seconds" not in run) for run in ended)


def of_cell(runs: list[Run], task: str, system: str, rows: int, key: str) -> float | None:
    """Return the median of a value over the repeats of a cell; None where none has it."""
    cell = [r for r in runs if (r["task"], r["system"], r["rows"]) == (task, system, rows)]
    values = [run[key] for run in cell if key in run]
    return median(values) if values else None


def usage_of(usage: Usage, report: dict[str, Any]) -> Run:
    """What a run took, from outside and by its own report."""
    return {
        "seconds": report["seconds"],
        "whole_seconds": usage.seconds,
        "cpu_seconds": usage.cpu_seconds,
        "peak_bytes": usage.peak_bytes,
        "disk_bytes": usage.disk_bytes,
        "phases": report["phases"],
    }


def failure(error: ProgramError) -> Run:
    """How a run ended that came to no end."""
    if isinstance(error, CeilingError):
        return {"outcome": OVER, "told": str(error)}
    if isinstance(error, TimeLimitError):
        return {"outcome": LATE, "told": str(error)}
    lines = [line for line in str(error).splitlines() if line.strip()]
    return {"outcome": FAILED, "told": " ".join(lines[-_SHOWN_LINES:])}


def told(failed: Run, ceiling: str) -> str:
    """Why a run came to no end, in some words of a table."""
    why = failed["told"].replace("|", "/")
    return (
        f"{failed['outcome']} of {ceiling}: {why}"
        if "ceiling" in failed["outcome"]
        else f"{failed['outcome']}: {why[-160:]}"
    )


def number(value: float | None, form: str) -> str:
    """A value in a table; nothing where there is none."""
    return "" if value is None else format(value, form)


def read_into_memory(folder: Path) -> None:
    """Read all files, so that no run waits for the disk where the next one finds them in the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(_PIECE):
                    pass
