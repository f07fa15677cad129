"""The results of the table benchmark: JSON, a Markdown page, and a picture of the size sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.bars import bar_lines
from benchmarks.runs import DONE, GIB, Run, number, of_cell, told
from benchmarks.sizes import format_count
from benchmarks.table_oracle import KINDS, QUERIES
from benchmarks.table_runs import (
    CLUSTER,
    DELTA,
    DUCKDB,
    HERE,
    HILBERT,
    OURS,
    POLARS,
    PYARROW,
    PYICEBERG,
    SINK,
    SYSTEMS,
    UPSERT,
)
from benchmarks.table_task import CLUSTER_COLUMNS, LEVEL, SKY, TIME

NAME = "tables"
_WAYS = {
    (SINK, OURS): "hipslake, Iceberg",
    (SINK, HERE): "hipslake, Iceberg, without Spark",
    (SINK, PYARROW): "pyarrow `write_dataset`",
    (SINK, POLARS): "polars `sink_parquet`, `PartitionBy`",
    (SINK, DUCKDB): "DuckDB `COPY .. PARTITION_BY`",
    (SINK, PYICEBERG): "pyiceberg `append`, Iceberg",
    (CLUSTER, OURS): "hipslake, Z-order",
    (CLUSTER, HILBERT): "hipslake, Hilbert",
    (CLUSTER, HERE): "hipslake, Z-order, without Spark",
    (CLUSTER, DELTA): "delta-rs `optimize.z_order`",
    (CLUSTER, DUCKDB): "DuckDB sorted `COPY`",
    (CLUSTER, POLARS): "polars sort and sink",
    (CLUSTER, PYARROW): "pyarrow sort",
    (UPSERT, OURS): "hipslake",
    (UPSERT, HERE): "hipslake, without Spark",
    (UPSERT, PYICEBERG): "pyiceberg `upsert`",
}
_COLOURS = {
    OURS: "#2f5d62",
    HILBERT: "#5b8c7b",
    HERE: "#9fc2a8",
    PYARROW: "#7aa6c2",
    POLARS: "#e8b44f",
    DUCKDB: "#b5651d",
    PYICEBERG: "#8d7b9c",
    DELTA: "#c0392b",
}
_TITLES = {
    SINK: "Sink: a partition per sky pixel and year",
    CLUSTER: "Clustering by sky, time and magnitude",
    UPSERT: "Upsert",
}


def write(result: dict[str, Any], folder: Path) -> None:
    """Keep a benchmark as `tables.json`, `tables.md` and `tables.png` in a folder."""
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
        "# Table benchmark",
        "",
        f"{times[0]} to {times[-1]} UTC, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / GIB:.0f} GiB, {machine['system']}, Python {machine['python']}, "
        f"{machine['java']}. Ours: {_versions(machine['versions'])}. "
        f"Peers: {_versions(machine['peer_versions'])}. Made by `make bench-tables`.",
        "",
        f"A synthetic Milky Way of 13 columns, in files of a million rows in random order; zstd-{LEVEL} for "
        "all. *Whole*: the whole process, start of interpreters and of Spark included. *Up*: without these. "
        "*Peak*: proportional set sizes of all processes together. *Disk*: bytes written to it; what exceeds "
        "the files is spill and shuffle. Of repeated runs, medians. Every outcome is read again: rows, and "
        "the sums of two columns, have to be those of the source.",
        "",
        f"**{ceiling} of memory for every system**, all its processes together: anonymous and shared memory, "
        "read from `/proc` ten times a second, as a control group would count it once the page cache is "
        "given back. Who holds more is ended. (`RLIMIT_AS` and `RLIMIT_DATA` count what one process "
        "reserves, not what all of them hold.) "
        "Systems that can be told of a limit are told 60% of it; Spark runs as the project starts it.",
        "",
        "The peers are single processes on the same cores, without a log of versions, retries, or a commit "
        "(but for pyiceberg and delta-rs): on small data they win by what starting Spark costs. Our DAGs "
        "start none for inputs below 256 MiB: *without Spark* is what they run there.",
        "",
        f"![Seconds by rows]({NAME}.png)",
    ]
    for task in (SINK, CLUSTER, UPSERT):
        if any(run["task"] == task for run in runs):
            lines += ["", f"## {_TITLES[task]}", "", _about(task, limits), "", *_rows_of(task, runs, ceiling)]
    lines += ["", "## Bars", "", *bar_lines(result["verdicts"])]
    return "\n".join(lines)


def _versions(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())


def _about(task: str, limits: dict[str, Any]) -> str:
    if task == SINK:
        return (
            f"Partitioned by `{SKY}` (12 pixels) and the year of `{TIME}` (12 years): 144 partitions, of "
            "which those near the galactic centre hold far more than others. Ours and pyiceberg commit an "
            "Iceberg snapshot with column statistics; the others leave folders of files."
        )
    if task == CLUSTER:
        columns = ", ".join(f"`{name}`" for name in CLUSTER_COLUMNS)
        return (
            f"By {columns}, into about {limits['files']} files. DuckDB, polars and pyarrow sort by the "
            "columns one after the other. Then the mean number of files that a query touches, of "
            f"{QUERIES:,} seeded queries of each kind, judged by the minima and maxima in the footers. A "
            "sort is best where its first column is asked for, and touches everything where it is not. "
            "How curves and sorts place rows of other kinds, also with Delta's own range ids, is on the page "
            "of [clustering quality](clustering.md), made in the same run."
        )
    return (
        "Keys of which half stand in the table, into ten times as many rows of 3 columns, not partitioned. "
        "What each leaves is read by pyiceberg and compared, row by row, with what numpy makes of the two. "
        "A run that went over the ceiling was repeated without it, for the time that it takes."
    )


def _rows_of(task: str, runs: list[Run], ceiling: str) -> list[str]:
    """The table of a task: a line per size and system."""
    kinds = list(KINDS) if task == CLUSTER else []
    head = ["rows", "system", "whole s", "up s", "CPU s", "peak GiB", "disk GB", "files", "mean MB", *kinds]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    for rows in sorted({run["rows"] for run in runs if run["task"] == task}):
        for system in SYSTEMS[task]:
            cell = [r for r in runs if (r["task"], r["system"], r["rows"]) == (task, system, rows)]
            if not cell:
                continue
            failed = next((run for run in cell if run["outcome"] != DONE), None)
            start = [format_count(rows), _WAYS[task, system]]
            if failed is not None:
                start[1] += f"; **{told(failed, ceiling)}**"
            lines.append("| " + " | ".join([*start, *_measured(task, system, rows, runs, kinds)]) + " |")
    return lines


def _measured(task: str, system: str, rows: int, runs: list[Run], kinds: list[str]) -> list[str]:
    def of(key: str) -> float | None:
        return of_cell(runs, task, system, rows, key)

    files, size, peak, disk = of("files"), of("bytes"), of("peak_bytes"), of("disk_bytes")
    shown = [
        number(of("whole_seconds"), ".1f"),
        number(of("seconds"), ".1f"),
        number(of("cpu_seconds"), ".0f"),
        number(None if peak is None else peak / GIB, ".2f"),
        number(None if disk is None else disk / 1e9, ".2f"),
        number(files, ".0f"),
        number(size / files / 1e6 if files and size else None, ".1f"),
    ]
    return [*shown, *(number(of(kind), ".1f") for kind in kinds)]


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the size sweep: whole processes by rows, a panel per task; a cross where a system gave up."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = result["runs"]
    tasks = [task for task in (SINK, CLUSTER) if any(run["task"] == task for run in runs)]
    figure, panels = plt.subplots(
        1, max(1, len(tasks)), figsize=(5.6 * max(1, len(tasks)), 4.2), squeeze=False
    )
    for panel, task in zip(panels[0], tasks, strict=False):
        sizes = sorted({run["rows"] for run in runs if run["task"] == task})
        for system in SYSTEMS[task]:
            took = [(rows, of_cell(runs, task, system, rows, "whole_seconds")) for rows in sizes]
            points = [(rows, seconds) for rows, seconds in took if seconds is not None]
            if not points:
                continue
            colour, name = _COLOURS[system], _WAYS[task, system].replace("`", "")
            panel.plot(*zip(*points, strict=True), "o-", color=colour, label=name, markersize=4)
            ended = {run["rows"] for run in runs if run["task"] == task and run["system"] == system}
            if ended - {rows for rows, _ in points}:
                panel.plot(*points[-1], "x", color=colour, markersize=13, markeredgewidth=2)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xticks(sizes, [format_count(rows) for rows in sizes])
        panel.minorticks_off()
        panel.set_xlabel("rows")
        panel.set_ylabel("seconds, whole process")
        panel.set_title(_TITLES[task], fontsize=10, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(fontsize=7, frameon=False)
    ceiling = result["limits"]["ceiling"] / GIB
    note = f"A cross: at the next size, no outcome within {ceiling:g} GiB and the time limit"
    figure.suptitle(note, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
