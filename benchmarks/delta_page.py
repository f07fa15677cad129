"""The bars and the results of the Delta benchmark: JSON, a Markdown page, and a picture of the size sweep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bars import Verdict, bar_lines
from benchmarks.delta_runs import MERGE, ON_READ, PEER, SYSTEMS
from benchmarks.runs import DONE, GIB, LATE, Run, number, of_cell
from benchmarks.sizes import format_count
from benchmarks.sweep_page import (
    TABLE_MEASURES,
    ceiling_of,
    draw_tasks,
    has_task,
    keep,
    measured_on,
    rows_of,
    table_measures,
    versions,
)
from benchmarks.table_oracle import KINDS, QUERIES
from benchmarks.table_runs import CLUSTER, HERE, HILBERT, OURS, UPSERT_SHARE
from benchmarks.table_task import CLUSTER_COLUMNS, LEVEL

NAME = "delta"
JUDGED_ROWS = 80_000_000
SPEED_BAR, FILES_BAR = 3.0, 0.5
MEMORY_BAR = 4 * GIB
READ = "read_seconds"
BOX = next(iter(KINDS))
_WAYS = {
    CLUSTER: {
        OURS: "hipslake, Z-order",
        HILBERT: "hipslake, Hilbert",
        HERE: "hipslake, Z-order, without Spark",
        PEER: "delta-rs `optimize.z_order`",
    },
    MERGE: {
        OURS: "hipslake, copy-on-write",
        ON_READ: "hipslake, merge-on-read",
        HERE: "hipslake, copy-on-write, without Spark",
        PEER: "delta-rs `merge`",
    },
}
_COLOURS = {OURS: "#2f5d62", HILBERT: "#5b8c7b", HERE: "#9fc2a8", ON_READ: "#1d3557", PEER: "#c0392b"}
_TITLES = {CLUSTER: "Clustering by sky, time and magnitude", MERGE: "Upsert"}
_CALLED = {READ: "read s"}


def verdicts(runs: list[Run], seconds: float) -> Iterator[Verdict]:
    """Judge a benchmark: whatever of it has run; `seconds` were given to each run."""
    for task in SYSTEMS:
        mine = [run for run in runs if run["task"] == task and run["system"] != PEER]
        if mine:
            told = sorted(
                {f"{format_count(run['rows'])}: {run['outcome']}" for run in mine if not _is_well(run)}
            )
            sizes = ", ".join(format_count(rows) for rows in sorted({run["rows"] for run in mine}))
            what = f"{task}: ours finishes under the ceiling, at {sizes}"
            yield Verdict(what, "; ".join(told) or "yes", "yes", not told)
    wrong = sorted({f"{run['system']}, {run['task']}" for run in runs if not run.get("right", True)})
    yield Verdict("every outcome holds the rows that it should", "; ".join(wrong) or "yes", "yes", not wrong)
    for task in SYSTEMS:
        for system in (OURS, HILBERT, ON_READ):
            yield from _faster(runs, task, system, seconds)
    for rows in sorted({run["rows"] for run in runs if run["task"] == CLUSTER}):
        for system in (OURS, HILBERT):
            ours, peer = (of_cell(runs, CLUSTER, each, rows, BOX) for each in (system, PEER))
            if ours and peer:
                what = f"cluster {format_count(rows)}: files that a box touches, {system} over delta-rs"
                yield Verdict(what, ours / peer, f"<= {FILES_BAR}", ours / peer <= FILES_BAR)


def _faster(runs: list[Run], task: str, system: str, seconds: float) -> Iterator[Verdict]:
    ours = of_cell(runs, task, system, JUDGED_ROWS, "whole_seconds")
    peer = of_cell(runs, task, PEER, JUDGED_ROWS, "whole_seconds")
    theirs = [run for run in runs if (run["task"], run["system"]) == (task, PEER)]
    late = any(run["rows"] <= JUDGED_ROWS and run["outcome"] == LATE for run in theirs)
    if ours is None or (peer is None and not late):
        return
    ratio = (seconds if peer is None else peer) / ours
    least = "at least, " if peer is None else ""
    what = f"{task} {format_count(JUDGED_ROWS)}: {least}delta-rs over {system}, whole process"
    yield Verdict(what, ratio, f">= {SPEED_BAR}", ratio >= SPEED_BAR)


def _is_well(run: Run) -> bool:
    return bool(run["outcome"] == DONE and run["peak_bytes"] <= MEMORY_BAR)


def write(result: dict[str, Any], folder: Path) -> None:
    """Keep a benchmark as `delta.json`, `delta.md` and `delta.png` in a folder."""
    keep(NAME, result, folder, markdown, draw)


def markdown(result: dict[str, Any]) -> str:
    """Return the page: the machine, how it was measured, a table per task, and the bars."""
    lines = [
        "# Delta benchmark",
        "",
        f"{measured_on(result)} Peer: {versions(result['machine']['peer_versions'])}. "
        "Made by `make bench-delta`.",
        "",
        f"Delta tables beside delta-rs: both start from the same table, zstd-{LEVEL}, which delta-rs has "
        "made. *Whole*: the whole process, start of interpreters and of Spark included. *Up*: without these. "
        "*Peak*: proportional set sizes of all processes together. *Disk*: bytes written to it; what exceeds "
        "the files is spill and shuffle. Before each run its source is read once, so that none waits for the "
        "disk. Of repeated runs, medians. Which files the newest version names "
        "afterwards, delta-rs says; they are read again, and their rows compared.",
        "",
        f"**{ceiling_of(result)} of memory for every system**, as in the [table benchmark](tables.md); "
        "delta-rs is told to spill at 60% of it. A run that went over the ceiling was repeated without it, "
        "for the time that it takes. Our DAGs start no Spark for inputs below 256 MiB: *without Spark* is "
        "what they run there.",
        "",
        f"![Seconds by rows]({NAME}.png)",
    ]
    for task in SYSTEMS:
        if has_task(result["runs"], task):
            kinds = list(KINDS) if task == CLUSTER else [READ]
            shown = rows_of(
                task,
                result,
                ("rows", "system", *TABLE_MEASURES, *(_CALLED.get(kind, kind) for kind in kinds)),
                _WAYS[task],
                lambda of, kinds=kinds: [*table_measures(of), *(number(of(kind), ".1f") for kind in kinds)],
            )
            lines += ["", f"## {_TITLES[task]}", "", _about(task, result["limits"]), "", *shown]
    return "\n".join([*lines, "", "## Bars", "", *bar_lines(result["verdicts"])])


def _about(task: str, limits: dict[str, Any]) -> str:
    if task == CLUSTER:
        columns = ", ".join(f"`{name}`" for name in CLUSTER_COLUMNS)
        return (
            f"A synthetic Milky Way of 13 columns, in files of a million rows in random order, by {columns}, "
            f"into about {limits['files']} files. Then the mean number of files that a query touches, of "
            f"{QUERIES:,} seeded queries of each kind, judged by the minima and maxima in the footers."
        )
    return (
        f"Keys of which half stand in the table, into {UPSERT_SHARE} times as many rows of 3 columns, not "
        "partitioned, in files of 10 million rows: each file has some of the keys. *Copy-on-write* writes "
        "all files anew, as `merge` does; *merge-on-read* writes deletion vectors, and the new rows. In "
        "Spark or without it, as the DAG does by what there is to handle: files of which only keys are read "
        "count a twentieth. *Read*: what delta-rs takes to look at all rows afterwards, at three columns."
    )


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the size sweep: whole processes by rows, a panel per task; a cross where a system gave up."""
    ways = {task: ways for task, ways in _WAYS.items() if has_task(result["runs"], task)}
    draw_tasks(result, ways, _COLOURS, _TITLES, path)
