"""The results of the cube benchmark: JSON, a Markdown page, and a picture of the size sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.bars import bar_lines
from benchmarks.cube_bars import faster_from
from benchmarks.cube_runs import DASK, EAGER, HERE, OURS, SMALL_CELLS, TASKS
from benchmarks.cube_task import BUILD, DATASETS, EPOCHS, FRAME, FULL, INDEXED, KINDS, PIXELS, SELECTIVE
from benchmarks.runs import GIB, number
from benchmarks.sizes import format_count
from benchmarks.sweep_page import (
    Of,
    ceiling_of,
    draw_task,
    explain_lines,
    has_task,
    keep,
    measured_on,
    rows_of,
    save,
    versions,
)

NAME = "cube"
_NAMES = {
    OURS: "hipslake",
    HERE: "hipslake, without Spark",
    EAGER: "kartothek, eager",
    DASK: "kartothek, dask",
}
_COLOURS = {OURS: "#2f5d62", HERE: "#9fc2a8", EAGER: "#b5651d", DASK: "#e8b44f"}
_ABOUT = {
    BUILD: "Build: four datasets, one cube",
    FULL: "Full query: all rows and columns, written as Parquet",
    "restricted": "Restricted query: a tenth of the cells, by payload without an index, written as Parquet",
    "groups": f"Partitioned by an indexed column of {KINDS} values: a file of each group",
    "projection": "Projection: from cells to sources, written as Parquet",
    SELECTIVE: "Selective query: one value of an index, as a pandas frame",
    FRAME: "Full query as one pandas frame",
}
_HEAD = ("cells", "system", "whole s", "up s", "CPU s", "peak GiB", "files", "MB")
_DRAWN = (BUILD, FULL, "restricted", SELECTIVE)


def write(result: dict[str, Any], folder: Path) -> None:
    """Keep a benchmark as `cube.json`, `cube.md` and `cube.png` in a folder."""
    keep(NAME, result, folder, markdown, draw)


def markdown(result: dict[str, Any]) -> str:
    """Return the page: the machine, how it was measured, a table per task, and the bars."""
    runs = result["runs"]
    lines = [
        "# Cube benchmark",
        "",
        f"{measured_on(result)} Peer: {versions(result['machine']['peer_versions'])}, Python 3.8. "
        "Made by `make bench-cube`.",
        "",
        f"A survey that sees its sources in {EPOCHS} epochs: {', '.join(DATASETS[:-1])} have a row for every "
        f"cell, {DATASETS[-1]} one for every source; {PIXELS} partitions, indices on "
        f"{' and '.join(INDEXED)}. The source is Parquet files of a million rows in no order, so that each "
        "touches all partitions. *Whole*: the whole process, start of interpreters, of Spark and of dask's "
        "workers included. *Up*: without these. *Peak*: proportional set sizes of all processes together. "
        "Of repeated runs, medians. Every answer is read again: its rows, and a checksum of them, have to be "
        "those that numpy makes of the source.",
        "",
        f"**{ceiling_of(result)} of memory for every system**, all its processes together, as in the "
        "[table benchmark](tables.md).",
        "",
        "kartothek works eagerly, in one process with all rows in memory, or with dask: two processes, a "
        "task for each file of the source or for each partition. Its eager build leaves one file for each "
        "partition; its build with dask one for each partition and file of the source, and looks for cells "
        "that come twice within each of these only. Ours looks through all cells, syncs every file to disk, "
        "and commits one version of all datasets. kartothek's queries read the cube of its eager build, or, "
        "where that went over the ceiling, that of its build with dask.",
        "",
        "*Without Spark* is what runs where there is little to read; it holds all rows of a build in memory.",
        "",
        f"![Seconds by cells]({NAME}.png)",
        "",
        "## From which size we are faster",
        "",
        "Than the faster of kartothek's two ways, at that size and at all above that were measured.",
        "",
        "| task | hipslake, up | hipslake, whole | without Spark, up | without Spark, whole |",
        "|---|---:|---:|---:|---:|",
    ]
    for task in TASKS:
        if has_task(runs, task):
            froms = [
                faster_from(runs, task, system, key)
                for system in (OURS, HERE)
                for key in ("seconds", "whole_seconds")
            ]
            lines.append(
                f"| {task} | " + " | ".join(f"{format_count(n)}" if n else "never" for n in froms) + " |"
            )
    for task in TASKS:
        if has_task(runs, task):
            lines += ["", f"## {_ABOUT[task]}", ""]
            if task in (FRAME, "groups"):
                lines += [f"Up to {format_count(SMALL_CELLS)} cells.", ""]
            lines += rows_of(task, result, _HEAD, _NAMES, _measured)
    lines += ["", "## Bars", ""]
    lines += ["At 20M cells and more, projections and selective queries are answered without Spark.", ""]
    lines += bar_lines(result["verdicts"])
    return "\n".join(lines)


def _measured(of: Of) -> list[str]:
    peak, size = of("peak_bytes"), of("bytes")
    return [
        number(of("whole_seconds"), ".1f"),
        number(of("seconds"), ".2f"),
        number(of("cpu_seconds"), ".1f"),
        number(None if peak is None else peak / GIB, ".2f"),
        number(of("files"), ".0f"),
        number(None if size is None else size / 1e6, ".1f"),
    ]


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the size sweep: whole processes by cells, a panel per task; a cross where a system gave up."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = result["runs"]
    tasks = [task for task in _DRAWN if has_task(runs, task)]
    figure, panels = plt.subplots(1, max(1, len(tasks)), figsize=(4 * max(1, len(tasks)), 3.8), squeeze=False)
    for panel, task in zip(panels[0], tasks, strict=False):
        draw_task(panel, task, runs, _NAMES, _COLOURS, unit="cells", title=task)
    explain_lines(panels[0][0])
    save(figure, f"A cross: at the next size, no outcome within {ceiling_of(result)}", path)
