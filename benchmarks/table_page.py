"""The results of the table benchmark: JSON, a Markdown page, and a picture of the size sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.bars import bar_lines
from benchmarks.runs import number
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
from benchmarks.table_runs import (
    CLUSTER,
    DELTA,
    DUCKDB,
    FEW_KEYS,
    HERE,
    HILBERT,
    KEYS,
    MERGE_ON_READ,
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
    (FEW_KEYS, OURS): "hipslake, copy-on-write",
    (FEW_KEYS, MERGE_ON_READ): "hipslake, merge-on-read",
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
    FEW_KEYS: "Upsert of few keys",
}


def write(result: dict[str, Any], folder: Path) -> None:
    """Keep a benchmark as `tables.json`, `tables.md` and `tables.png` in a folder."""
    keep(NAME, result, folder, markdown, draw)


def markdown(result: dict[str, Any]) -> str:
    """Return the page: the machine, how it was measured, a table per task, and the bars."""
    lines = [
        "# Table benchmark",
        "",
        f"{measured_on(result)} Peers: {versions(result['machine']['peer_versions'])}. "
        "Made by `make bench-tables`.",
        "",
        f"A synthetic Milky Way of 13 columns, in files of a million rows in random order; zstd-{LEVEL} for "
        "all. *Whole*: the whole process, start of interpreters and of Spark included. *Up*: without these. "
        "*Peak*: proportional set sizes of all processes together. *Disk*: bytes written to it; what exceeds "
        "the files is spill and shuffle. Before each run its source is read once, so that none waits for the "
        "disk. Of repeated runs, medians. Every outcome is read again: rows, and "
        "the sums of two columns, have to be those of the source.",
        "",
        f"**{ceiling_of(result)} of memory for every system**, all its processes together: anonymous and "
        "shared memory, read from `/proc` ten times a second, as a control group would count it once the "
        "page cache is given back. Who holds more is ended. (`RLIMIT_AS` and `RLIMIT_DATA` count what one "
        "process reserves, not what all of them hold.) Systems that can be told of a limit are told 60% of "
        "it; Spark runs as the project starts it.",
        "",
        "The peers are single processes on the same cores, without a log of versions, retries, or a commit "
        "(but for pyiceberg and delta-rs): on small data they win by what starting Spark costs. Our DAGs "
        "start none for inputs below 256 MiB, about 3M of these rows: *without Spark* is what they run "
        "there, and shown for more rows to tell what Spark costs.",
        "",
        f"![Seconds by rows]({NAME}.png)",
    ]
    for task in SYSTEMS:
        if has_task(result["runs"], task):
            kinds = list(KINDS) if task == CLUSTER else []
            shown = rows_of(
                task,
                result,
                ("rows", "system", *TABLE_MEASURES, *kinds),
                _ways(task),
                lambda of, kinds=kinds: [*table_measures(of), *(number(of(kind), ".1f") for kind in kinds)],
            )
            lines += ["", f"## {_TITLES[task]}", "", _about(task, result["limits"]), "", *shown]
    lines += ["", "## Bars", "", *bar_lines(result["verdicts"])]
    return "\n".join(lines)


def _ways(task: str) -> dict[str, str]:
    """How each system does a task, in the order of the tables."""
    return {system: _WAYS[task, system] for system in SYSTEMS[task]}


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
    if task == FEW_KEYS:
        return (
            f"{KEYS:,} keys of which half stand in the table, all over it, into a table as before. "
            "Copy-on-write writes every file anew that has one of them; merge-on-read writes the rows that "
            "came, and the positions of those that go. *Files* are data files; pyiceberg reads what each "
            "leaves, with the deletes, and it is compared as before."
        )
    return (
        "Keys of which half stand in the table, into ten times as many rows of 3 columns, not partitioned. "
        "What each leaves is read by pyiceberg and compared, row by row, with what numpy makes of the two. "
        "A run that went over the ceiling was repeated without it, for the time that it takes."
    )


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw the size sweep: whole processes by rows, a panel per task; a cross where a system gave up."""
    tasks = [task for task in (SINK, CLUSTER) if has_task(result["runs"], task)]
    draw_tasks(result, {task: _ways(task) for task in tasks}, _COLOURS, _TITLES, path)
