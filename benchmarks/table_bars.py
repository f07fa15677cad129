"""The bars that sink, clustering and upsert of tables have to clear, and whether they did."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bars import Verdict
from benchmarks.runs import DONE, GIB, Run, of_cell
from benchmarks.sizes import format_count
from benchmarks.table_oracle import KINDS
from benchmarks.table_runs import (
    CLUSTER,
    DELTA,
    DUCKDB,
    FEW_KEYS,
    HERE,
    HILBERT,
    MERGE_ON_READ,
    OURS,
    POLARS,
    PYICEBERG,
    SINK,
    UPSERT,
)

WHOLE_BAR, UP_BAR = 2.0, 3.0  # pyiceberg's upsert over ours
JUDGED_UPSERT = 10_000_000  # rows; with fewer, starting Spark is most of it
FEW_KEYS_BAR = 0.1  # bytes written by merge-on-read, of those by copy-on-write
SINK_UP_BAR, CLUSTER_UP_BAR, HERE_BAR = 1.15, 1.0, 2.0  # our seconds over those of a peer
JUDGED_UP = 80_000_000  # rows; of fewer, Spark's own tasks are much
MEMORY_BAR = 4 * GIB
BOX = next(iter(KINDS))
_OURS = (OURS, HILBERT, HERE, MERGE_ON_READ)


def verdicts(runs: list[Run]) -> Iterator[Verdict]:
    """Judge a benchmark: whatever of it has run."""
    for task in (SINK, CLUSTER, UPSERT, FEW_KEYS):
        mine = [run for run in runs if run["task"] == task and run["system"] in _OURS]
        if mine:
            told = sorted(
                {f"{format_count(run['rows'])}: {run['outcome']}" for run in mine if not _is_well(run)}
            )
            sizes = ", ".join(format_count(rows) for rows in sorted({run["rows"] for run in mine}))
            what = f"{task}: ours finishes under the ceiling, at {sizes}"
            yield Verdict(what, "; ".join(told) or "yes", "yes", not told)
    wrong = sorted({f"{run['system']}, {run['task']}" for run in runs if not run.get("right", True)})
    yield Verdict("every outcome holds the rows of its source", "; ".join(wrong) or "yes", "yes", not wrong)
    yield from _speed(runs)
    yield from _sinks(runs)
    yield from _clusters(runs)
    yield from _upserts(runs)
    yield from _few_keys(runs)


def _is_well(run: Run) -> bool:
    return bool(run["outcome"] == DONE and run["peak_bytes"] <= MEMORY_BAR)


def _sizes(runs: list[Run], task: str) -> list[int]:
    return sorted({run["rows"] for run in runs if run["task"] == task})


def _speed(runs: list[Run]) -> Iterator[Verdict]:
    """Our seconds over those of a peer, where both came to an end."""
    large = (
        (SINK, OURS, POLARS, "seconds", "session up", SINK_UP_BAR),
        (CLUSTER, HILBERT, DUCKDB, "seconds", "session up", CLUSTER_UP_BAR),
    )
    whole = "whole process"
    small = tuple((task, HERE, POLARS, "whole_seconds", whole, HERE_BAR) for task in (SINK, CLUSTER))
    for task, system, peer, key, what, bar in (*large, *small):
        for rows in _sizes(runs, task):
            if system != HERE and rows < JUDGED_UP:
                continue
            ours, theirs = (of_cell(runs, task, each, rows, key) for each in (system, peer))
            if ours and theirs:
                told = f"{task} {format_count(rows)}: {system} over {peer}, {what}"
                yield Verdict(told, ours / theirs, f"<= {bar}", ours / theirs <= bar)


def _sinks(runs: list[Run]) -> Iterator[Verdict]:
    for rows in _sizes(runs, SINK):
        ours = of_cell(runs, SINK, OURS, rows, "files")
        others = [r["files"] for r in runs if (r["task"], r["rows"]) == (SINK, rows) and "files" in r]
        if ours and others:
            what = f"sink {format_count(rows)}: our files; the fewest of all"
            yield Verdict(what, ours, f"<= {min(others)}", ours <= min(others))


def _clusters(runs: list[Run]) -> Iterator[Verdict]:
    for rows in _sizes(runs, CLUSTER):
        peer = of_cell(runs, CLUSTER, DELTA, rows, BOX)
        for system in (OURS, HILBERT):
            ours = of_cell(runs, CLUSTER, system, rows, BOX)
            if ours and peer:
                what = f"cluster {format_count(rows)}: files that a box touches, {system}; delta-rs z_order's"
                yield Verdict(what, ours, f"<= {peer:.1f}", ours <= peer)


def _upserts(runs: list[Run]) -> Iterator[Verdict]:
    for rows in _sizes(runs, UPSERT):
        if rows < JUDGED_UPSERT:
            continue
        for name, key, bar in (
            ("whole process", "whole_seconds", WHOLE_BAR),
            ("session up", "seconds", UP_BAR),
        ):
            ours, peer = (of_cell(runs, UPSERT, system, rows, key) for system in (OURS, PYICEBERG))
            if ours and peer:
                what = f"upsert into {format_count(rows)}: pyiceberg over us, {name}"
                yield Verdict(what, peer / ours, f">= {bar}", peer / ours >= bar)


def _few_keys(runs: list[Run]) -> Iterator[Verdict]:
    for rows in _sizes(runs, FEW_KEYS):
        copied, merged = (
            of_cell(runs, FEW_KEYS, system, rows, "disk_bytes") for system in (OURS, MERGE_ON_READ)
        )
        if copied and merged:
            what = f"few keys into {format_count(rows)}: bytes written by merge-on-read over copy-on-write's"
            yield Verdict(what, merged / copied, f"<= {FEW_KEYS_BAR}", merged / copied <= FEW_KEYS_BAR)
