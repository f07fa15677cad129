"""The results of the ingest benchmark: JSON, a Markdown page with tables, and a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import step_cost
from benchmarks.bars import LIMIT, OURS, PEER, PROGRAM, bar_lines
from benchmarks.sizes import format_count

TITLES = {
    LIMIT: "two processes, no fault tolerance",
    OURS: "hipslake",
    PROGRAM: "`hipslake ingest`",
    PEER: "hats-import",
}
GIB = 2**30
_START = "start-up of interpreters, Spark, dask"
_COLOURS = {
    _START: "#c9ced6",
    "histogram": "#7aa6c2",
    "plan": "#e8b44f",
    "split": "#5b8c7b",
    "write": "#2f5d62",
    "publish and view": "#b5651d",
    "import": "#8d7b9c",
}
_KINDS = {
    "merge_and_write": "write",
    "resolve": "plan",
    "inputs": "plan",
    "publish": "publish and view",
    "view": "publish and view",
    "client": _START,
    "shutdown": _START,
}


def write(result: dict[str, Any], folder: Path) -> None:
    """Keep a benchmark as `ingest.json`, `ingest.md` and `ingest.png` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ingest.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "ingest.md").write_text(markdown(result) + "\n")
    draw(result, folder / "ingest.png")


def markdown(result: dict[str, Any]) -> str:
    """Return the page: the machine, a row per run, the bars, and the cost of one Spark step."""
    machine, runs = result["machine"], result["runs"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    peers = ", ".join(f"{name} {number}" for name, number in machine["peer_versions"].items())
    lines = [
        "# Ingest benchmark",
        "",
        f"{result['date']}, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / GIB:.0f} GiB, {machine['system']}, Python {machine['python']}, "
        f"{machine['java']}. Ours: {versions}. Peers: {peers}.",
        "",
        f"A synthetic Milky Way, 12 columns, threshold {format_count(result['threshold_rows'])} rows; zstd, "
        "equal level, encodings and row groups for all. Made by `make bench-ingest`.",
        "",
        "![Seconds per phase](ingest.png)",
        "",
        "*Up*: without what starting takes: interpreters with their imports, Spark sessions with their "
        "Python workers. *Whole*: the whole process. Verify is apart from both. *Peak*: proportional set "
        "sizes of all processes together. *hipslake* are the steps of the DAG, with Spark; `hipslake ingest` "
        "is the command, which starts Spark only if the rows take more than a quarter of the memory.",
        "",
        "| rows | zstd | system | up s | whole s | verify s | cpu s | rows/s | peak GiB | leaves | GB |",
        "|---|---|---|" + "---:|" * 8,
    ]
    for run in runs:
        verify = f"{run['verify_seconds']:.1f}" if run["verify_seconds"] else ""
        lines.append(
            f"| {format_count(run['rows'])} | {run['level']} | {TITLES[run['system']]} | "
            f"{run['seconds']:.1f} | {run['whole_seconds']:.1f} | {verify} | {run['cpu_seconds']:.0f} | "
            f"{run['rows'] / run['whole_seconds']:,.0f} | {run['peak_bytes'] / GIB:.2f} | {run['leaves']} | "
            f"{run['output_bytes'] / 1e9:.2f} |"
        )
    if result["verdicts"]:
        lines += ["", "## Bars", "", "Of repeated runs the median counts.", ""]
        lines += bar_lines(result["verdicts"])
    if result["step_cost"]:
        lines += ["", "## The fixed cost of one Spark step", "", step_cost.table(result["step_cost"])]
    return "\n".join(lines)


def phases_of(run: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of a run by kind of phase, in order; they add up to the whole process."""
    kinds = {_START: run["whole_seconds"] - run["seconds"]}
    for phase, seconds in run["phases"].items():
        kind = _KINDS.get(phase, phase)
        kinds[kind] = kinds.get(kind, 0.0) + seconds
    return kinds


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw a panel per size and level: a bar per system, cut into its phases."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = result["runs"]
    sizes = sorted({run["rows"] for run in runs})
    levels = sorted({run["level"] for run in runs})
    systems = [system for system in TITLES if any(run["system"] == system for run in runs)]
    figure, panels = plt.subplots(
        len(sizes), len(levels), figsize=(5.2 * len(levels) + 1.5, 1.9 * len(sizes) + 1.2), squeeze=False
    )
    seen: dict[str, Any] = {}
    for row, rows in enumerate(sizes):
        for column, level in enumerate(levels):
            panel = panels[row][column]
            for place, system in enumerate(systems):
                cell = [r for r in runs if (r["system"], r["rows"], r["level"]) == (system, rows, level)]
                if not cell:
                    continue
                shown = sorted(cell, key=lambda run: run["whole_seconds"])[len(cell) // 2]
                left = 0.0
                for kind, seconds in phases_of(shown).items():
                    bar = panel.barh(
                        place, seconds, left=left, color=_COLOURS.get(kind, "#999999"), height=0.62
                    )
                    seen.setdefault(kind, bar)
                    left += seconds
                panel.text(left, place, f" {left:.0f} s", va="center", fontsize=9)
            panel.set_yticks(range(len(systems)), [TITLES[system] for system in systems], fontsize=9)
            panel.invert_yaxis()
            panel.margins(x=0.12)
            panel.set_xlim(left=0)
            panel.set_title(f"{format_count(rows)} rows, zstd-{level}", fontsize=10, loc="left")
            panel.tick_params(axis="x", labelsize=8)
            panel.spines[["top", "right"]].set_visible(False)
            if column:
                panel.set_yticklabels([])
            if row == len(sizes) - 1:
                panel.set_xlabel("seconds, whole process without verify", fontsize=9)
    machine = result["machine"]
    figure.suptitle(
        f"A synthetic Milky Way on {machine['cores']} cores ({machine['processor']}), {result['date']}",
        fontsize=11,
    )
    figure.legend(
        seen.values(), seen.keys(), loc="lower center", ncols=min(4, len(seen)), fontsize=8, frameon=False
    )
    figure.tight_layout(rect=(0, 0.04 + 0.12 / len(sizes), 1, 0.99))
    figure.savefig(path, dpi=150)
    plt.close(figure)
