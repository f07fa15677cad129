"""What the pages of sweeps share: the line of the machine, tables of sizes and systems, and the picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.runs import DONE, GIB, Run, number, of_cell, told
from benchmarks.sizes import format_count

Of = Callable[[str], float | None]
"""The median of a value over the repeats of a cell, by its name."""


def keep(
    name: str,
    result: dict[str, Any],
    folder: Path,
    markdown: Callable[[dict[str, Any]], str],
    draw: Callable[[dict[str, Any], Path], None],
) -> None:
    """Keep a benchmark as `<name>.json`, `<name>.md` and `<name>.png` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / f"{name}.md").write_text(markdown(result) + "\n")
    draw(result, folder / f"{name}.png")


def ceiling_of(result: dict[str, Any]) -> str:
    """The memory that each system had, in words."""
    return f"{result['limits']['ceiling'] / GIB:g} GiB"


def measured_on(result: dict[str, Any]) -> str:
    """When it was measured, on which machine, and with which packages of ours."""
    machine = result["machine"]
    times = sorted(run["at"] for run in result["runs"])
    return (
        f"{times[0]} to {times[-1]} UTC, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / GIB:.0f} GiB, {machine['system']}, Python {machine['python']}, "
        f"{machine['java']}. Ours: {versions(machine['versions'])}."
    )


def versions(found: Mapping[str, str]) -> str:
    """Packages with their versions."""
    return ", ".join(f"{name} {version}" for name, version in found.items())


def has_task(runs: Iterable[Run], task: str) -> bool:
    """Whether any run is of a task."""
    return any(run["task"] == task for run in runs)


def rows_of(
    task: str,
    result: dict[str, Any],
    head: Sequence[str],
    systems: Mapping[str, str],
    measured: Callable[[Of], list[str]],
) -> list[str]:
    """The table of a task: a line per size and system.

    Parameters
    ----------
    task : str
    result : dict
    head : sequence of str
        The columns: the size, the system, and what was measured.
    systems : mapping of str to str
        What each system is called, in the order in which they are shown.
    measured : callable
        Takes the medians of a cell; gives its columns.
    """
    runs = result["runs"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    for rows in sorted({run["rows"] for run in runs if run["task"] == task}):
        for system, name in systems.items():
            cell = [r for r in runs if (r["task"], r["system"], r["rows"]) == (task, system, rows)]
            if not cell:
                continue
            failed = next((run for run in cell if run["outcome"] != DONE), None)
            shown = name if failed is None else f"{name}; **{told(failed, ceiling_of(result))}**"

            def of(key: str, system: str = system, rows: int = rows) -> float | None:
                return of_cell(runs, task, system, rows, key)

            lines.append("| " + " | ".join([format_count(rows), shown, *measured(of)]) + " |")
    return lines


TABLE_MEASURES = ("whole s", "up s", "CPU s", "peak GiB", "disk GB", "files", "mean MB")
"""What is measured of every change of a table: the heads of columns."""


def table_measures(of: Of) -> list[str]:
    """The columns of `TABLE_MEASURES`."""
    files, size, peak, disk = of("files"), of("bytes"), of("peak_bytes"), of("disk_bytes")
    return [
        number(of("whole_seconds"), ".1f"),
        number(of("seconds"), ".1f"),
        number(of("cpu_seconds"), ".0f"),
        number(None if peak is None else peak / GIB, ".2f"),
        number(None if disk is None else disk / 1e9, ".2f"),
        number(files, ".0f"),
        number(size / files / 1e6 if files and size else None, ".1f"),
    ]


def draw_tasks(
    result: dict[str, Any],
    ways: Mapping[str, Mapping[str, str]],
    colours: Mapping[str, str],
    titles: Mapping[str, str],
    path: Path,
) -> None:
    """Draw a size sweep by rows, a panel per task.

    Parameters
    ----------
    result : dict
    ways : mapping of str to mapping of str to str
        The tasks, and what each system is called that does them.
    colours : mapping of str to str
        Of the systems.
    titles : mapping of str to str
        Of the tasks.
    path : Path
        Of the picture.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    number_of = max(1, len(ways))
    figure, panels = plt.subplots(1, number_of, figsize=(5.6 * number_of, 4.2), squeeze=False)
    for panel, (task, names) in zip(panels[0], ways.items(), strict=False):
        plain = {system: way.replace("`", "") for system, way in names.items()}
        draw_task(panel, task, result["runs"], plain, colours, unit="rows", title=titles[task])
        explain_lines(panel)
    note = f"A cross: at the next size, no outcome within {ceiling_of(result)} and the time limit"
    save(figure, note, path)


def draw_task(
    panel: Any,
    task: str,
    runs: list[Run],
    systems: Mapping[str, str],
    colours: Mapping[str, str],
    *,
    unit: str,
    title: str,
) -> None:
    """Draw the seconds of whole processes by size, a line per system; a cross where a system gave up."""
    sizes = sorted({run["rows"] for run in runs if run["task"] == task})
    for system, name in systems.items():
        took = [(rows, of_cell(runs, task, system, rows, "whole_seconds")) for rows in sizes]
        points = [(rows, seconds) for rows, seconds in took if seconds is not None]
        if not points:
            continue
        colour = colours[system]
        panel.plot(*zip(*points, strict=True), "o-", color=colour, label=name, markersize=4)
        asked = {run["rows"] for run in runs if run["task"] == task and run["system"] == system}
        if asked - {rows for rows, _ in points}:
            panel.plot(*points[-1], "x", color=colour, markersize=13, markeredgewidth=2)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(sizes, [format_count(rows) for rows in sizes])
    panel.minorticks_off()
    panel.set_xlabel(unit)
    panel.set_title(title, fontsize=10, loc="left")
    panel.spines[["top", "right"]].set_visible(False)


def explain_lines(panel: Any) -> None:
    """Say at a panel what its lines are."""
    panel.set_ylabel("seconds, whole process")
    panel.legend(fontsize=7, frameon=False)


def save(figure: Any, note: str, path: Path) -> None:
    """Store a picture with a note over it."""
    import matplotlib.pyplot as plt

    figure.suptitle(note, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
