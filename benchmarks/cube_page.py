"""The results of the cube benchmark: JSON, a Markdown page, and a picture of the size sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.bars import bar_lines
from benchmarks.cube_bars import faster_from
from benchmarks.cube_runs import DASK, EAGER, HERE, OURS, SMALL_CELLS, SYSTEMS, TASKS
from benchmarks.cube_task import BUILD, DATASETS, EPOCHS, FRAME, FULL, INDEXED, KINDS, PIXELS, SELECTIVE
from benchmarks.runs import DONE, GIB, Run, number, of_cell, told
from benchmarks.sizes import format_count

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
_DRAWN = (BUILD, FULL, "restricted", SELECTIVE)


def write(result: dict[str, Any], folder: Path) -> None:
    """Keep a benchmark as `cube.json`, `cube.md` and `cube.png` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / f"{NAME}.md").write_text(markdown(result) + "\n")
    draw(result, folder / f"{NAME}.png")


def markdown(result: dict[str, Any]) -> str:
    """Return the page: the machine, how it was measured, a table per task, and the bars."""
    machine, runs, limits = result["machine"], result["runs"], result["limits"]
    times = sorted(run["at"] for run in runs)
    ceiling = f"{limits['ceiling'] / GIB:g} GiB"
    lines = [
        "# Cube benchmark",
        "",
        f"{times[0]} to {times[-1]} UTC, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / GIB:.0f} GiB, {machine['system']}, Python {machine['python']}, "
        f"{machine['java']}. Ours: {_versions(machine['versions'])}. "
        f"Peer: {_versions(machine['peer_versions'])}, Python 3.8. Made by `make bench-cube`.",
        "",
        f"A survey that sees its sources in {EPOCHS} epochs: {', '.join(DATASETS[:-1])} have a row for every "
        f"cell, {DATASETS[-1]} one for every source; {PIXELS} partitions, indices on "
        f"{' and '.join(INDEXED)}. The source is Parquet files of a million rows in no order, so that each "
        "touches all partitions. *Whole*: the whole process, start of interpreters, of Spark and of dask's "
        "workers included. *Up*: without these. *Peak*: proportional set sizes of all processes together. "
        "Of repeated runs, medians. Every answer is read again: its rows, and a checksum of them, have to be "
        "those that numpy makes of the source.",
        "",
        f"**{ceiling} of memory for every system**, all its processes together, as in the "
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
        if any(run["task"] == task for run in runs):
            froms = [
                faster_from(runs, task, system, key)
                for system in (OURS, HERE)
                for key in ("seconds", "whole_seconds")
            ]
            lines.append(
                f"| {task} | " + " | ".join(f"{format_count(n)}" if n else "never" for n in froms) + " |"
            )
    for task in TASKS:
        if any(run["task"] == task for run in runs):
            lines += ["", f"## {_ABOUT[task]}", ""]
            if task in (FRAME, "groups"):
                lines += [f"Up to {format_count(SMALL_CELLS)} cells.", ""]
            lines += _rows_of(task, runs, ceiling)
    lines += ["", "## Bars", ""]
    lines += ["At 20M cells and more, projections and selective queries are answered without Spark.", ""]
    lines += bar_lines(result["verdicts"])
    return "\n".join(lines)


def _versions(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _rows_of(task: str, runs: list[Run], ceiling: str) -> list[str]:
    """The table of a task: a line per size and system."""
    head = ["cells", "system", "whole s", "up s", "CPU s", "peak GiB", "files", "MB"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    for rows in sorted({run["rows"] for run in runs if run["task"] == task}):
        for system in SYSTEMS:
            cell = [r for r in runs if (r["task"], r["system"], r["rows"]) == (task, system, rows)]
            if not cell:
                continue
            failed = next((run for run in cell if run["outcome"] != DONE), None)
            name = _NAMES[system] if failed is None else f"{_NAMES[system]}; **{told(failed, ceiling)}**"
            lines.append(
                "| " + " | ".join([format_count(rows), name, *_measured(task, system, rows, runs)]) + " |"
            )
    return lines


def _measured(task: str, system: str, rows: int, runs: list[Run]) -> list[str]:
    def of(key: str, unit: float = 1) -> float | None:
        value = of_cell(runs, task, system, rows, key)
        return None if value is None else value / unit

    return [
        number(of("whole_seconds"), ".1f"),
        number(of("seconds"), ".2f"),
        number(of("cpu_seconds"), ".1f"),
        number(of("peak_bytes", GIB), ".2f"),
        number(of("files"), ".0f"),
        number(of("bytes", 1e6), ".1f"),
    ]


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the size sweep: whole processes by cells, a panel per task; a cross where a system gave up."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = result["runs"]
    tasks = [task for task in _DRAWN if any(run["task"] == task for run in runs)]
    figure, panels = plt.subplots(1, max(1, len(tasks)), figsize=(4 * max(1, len(tasks)), 3.8), squeeze=False)
    for panel, task in zip(panels[0], tasks, strict=False):
        sizes = sorted({run["rows"] for run in runs if run["task"] == task})
        for system in SYSTEMS:
            took = [(rows, of_cell(runs, task, system, rows, "whole_seconds")) for rows in sizes]
            points = [(rows, seconds) for rows, seconds in took if seconds is not None]
            if not points:
                continue
            panel.plot(
                *zip(*points, strict=True), "o-", color=_COLOURS[system], label=_NAMES[system], markersize=4
            )
            asked = {run["rows"] for run in runs if run["task"] == task and run["system"] == system}
            if asked - {rows for rows, _ in points}:
                panel.plot(*points[-1], "x", color=_COLOURS[system], markersize=13, markeredgewidth=2)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xticks(sizes, [format_count(rows) for rows in sizes])
        panel.minorticks_off()
        panel.set_xlabel("cells")
        panel.set_title(task, fontsize=10, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("seconds, whole process")
    panels[0][0].legend(fontsize=7, frameon=False)
    ceiling = result["limits"]["ceiling"] / GIB
    figure.suptitle(f"A cross: at the next size, no outcome within {ceiling:g} GiB", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
