"""The bars that cubes have to clear beside kartothek, and whether they did."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bars import Verdict
from benchmarks.cube_runs import HERE, OURS, PEERS, SMALL_TASKS, TASKS
from benchmarks.cube_task import FRAME, FULL, SELECTIVE
from benchmarks.runs import DONE, GIB, Run, of_cell
from benchmarks.sizes import format_count

SMALL, LARGE = 2_000_000, 20_000_000  # cells
SLOWDOWN_BARS = {FULL: 2.0, FRAME: 2.0, SELECTIVE: 3.0}  # ours at SMALL, over kartothek's best
MEMORY_BAR = 4 * GIB
LITTLE = ("projection", SELECTIVE)  # read so little, at any size, that no job is started for it


def system_of(task: str) -> str:
    """Which of our systems a task of a large cube is done by: Spark, but for queries that read little."""
    return HERE if task in LITTLE else OURS


def verdicts(runs: list[Run]) -> Iterator[Verdict]:
    """Judge a benchmark: whatever of it has run."""
    mine = [run for run in runs if run["system"] == OURS]
    ill = sorted(
        {f"{run['task']} {format_count(run['rows'])}: {run['outcome']}" for run in mine if not _well(run)}
    )
    sizes = ", ".join(format_count(rows) for rows in _sizes(mine))
    yield Verdict(f"ours finishes under the ceiling, at {sizes}", "; ".join(ill) or "yes", "yes", not ill)
    wrong = sorted({f"{run['system']}, {run['task']}" for run in runs if not run.get("right", True)})
    yield Verdict("every answer holds the rows of its source", "; ".join(wrong) or "yes", "yes", not wrong)
    for task, bar in SLOWDOWN_BARS.items():
        ours = of_cell(runs, task, HERE if task == SELECTIVE else OURS, SMALL, "seconds")
        peer = best(runs, task, SMALL, "seconds")
        if ours and peer:
            what = f"{task} of {format_count(SMALL)}, started: ours over kartothek's best"
            yield Verdict(what, ours / peer, f"<= {bar:g}", ours / peer <= bar)
    for rows in _sizes(runs):
        for task in TASKS:
            if rows < LARGE or task in SMALL_TASKS:
                continue
            ours = of_cell(runs, task, system_of(task), rows, "whole_seconds")
            peer = best(runs, task, rows, "whole_seconds")
            if ours and peer:
                what = f"{task} of {format_count(rows)}, whole process: kartothek's best over ours"
                yield Verdict(what, peer / ours, "> 1", peer > ours)
            elif ours and any(
                (run["task"], run["rows"]) == (task, rows) for run in runs if run["system"] in PEERS
            ):
                yield Verdict(
                    f"{task} of {format_count(rows)}: kartothek under the ceiling", "no", "> 1", True
                )


def best(runs: list[Run], task: str, rows: int, key: str) -> float | None:
    """The least that one of the peers took; None where all came to no end."""
    values = [value for peer in PEERS if (value := of_cell(runs, task, peer, rows, key)) is not None]
    return min(values, default=None)


def faster_from(runs: list[Run], task: str, system: str, key: str) -> int | None:
    """From how many cells on one of our systems takes less than kartothek's best, there and above."""
    found = None
    for rows in reversed(_sizes([run for run in runs if run["task"] == task and run["system"] == system])):
        ours, peer = of_cell(runs, task, system, rows, key), best(runs, task, rows, key)
        if ours is None or (peer is not None and peer <= ours):
            break
        found = rows
    return found


def _sizes(runs: list[Run]) -> list[int]:
    return sorted({run["rows"] for run in runs})


def _well(run: Run) -> bool:
    return bool(run["outcome"] == DONE and run["peak_bytes"] <= MEMORY_BAR)
