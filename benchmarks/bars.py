"""The bars that the ingest has to clear, and whether it did."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

from benchmarks.sizes import format_count

OURS, PROGRAM, LIMIT, PEER = "hipslake", "hipslake_program", "two_process", "hats_import"
SLOWDOWN_BAR = 1.5  # our time with the Spark session up, over the two-process program's
SLOWDOWN_BARS = {(1, 80): 1.0}  # (level, M rows): where it is less
WHOLE_BARS = {(1, 20): 1.6}  # (level, M rows): the whole of `hipslake ingest` over the two-process program
SPEEDUP_BARS = {
    (1, 20): 1.0,
    (1, 80): 1.3,
    (15, 20): 1.5,
    (15, 80): 2.0,
}  # (level, M rows): hats-import's over ours
GROWTH_BAR = 4.2  # 80M rows over 20M
MEMORY_BAR = 6 * 2**30

Run = dict[str, Any]


class Verdict(NamedTuple):
    """One bar."""

    what: str
    measured: float | str
    bar: str
    passed: bool


def bar_lines(verdicts: list[dict[str, Any]]) -> list[str]:
    """The table of the bars on a page."""
    lines = ["| bar | measured | wanted | |", "|---|---:|---:|---|"]
    for verdict in verdicts:
        measured = verdict["measured"]
        shown = measured if isinstance(measured, str) else f"{measured:.2f}"
        passed = "pass" if verdict["passed"] else "**FAIL**"
        lines.append(f"| {verdict['what']} | {shown} | {verdict['bar']} | {passed} |")
    return lines


def of_cell(runs: list[Run], system: str, rows: int, level: int, key: str) -> float | None:
    """Return the median of a value over the repeats of one cell of the benchmark; None if it did not run."""
    values = [r[key] for r in runs if (r["system"], r["rows"], r["level"]) == (system, rows, level)]
    return median(values) if values else None


def verdicts(runs: list[Run]) -> Iterator[Verdict]:
    """Judge a benchmark: medians over the repeats, at every size and level that has what it takes."""
    cells = sorted({(run["rows"], run["level"]) for run in runs})
    for rows, level in cells:
        where = f"{format_count(rows)} rows, zstd-{level}"
        up, limit = (of_cell(runs, s, rows, level, "seconds") for s in (OURS, LIMIT))
        if up and limit:
            ratio, most = up / limit, SLOWDOWN_BARS.get((level, rows // 1_000_000), SLOWDOWN_BAR)
            yield Verdict(f"{where}: session up, over two processes", ratio, f"<= {most}", ratio <= most)
        program, limit = (of_cell(runs, s, rows, level, "whole_seconds") for s in (PROGRAM, LIMIT))
        most = WHOLE_BARS.get((level, rows // 1_000_000), 0.0)
        if program and limit and most:
            what, ratio = f"{where}: `hipslake ingest` over two processes, whole process", program / limit
            yield Verdict(what, ratio, f"<= {most}", ratio <= most)
        whole, peer = (of_cell(runs, s, rows, level, "whole_seconds") for s in (OURS, PEER))
        bar = SPEEDUP_BARS.get((level, rows // 1_000_000))
        if whole and peer and bar:
            ratio = peer / whole
            yield Verdict(f"{where}: hats-import over us, whole process", ratio, f">= {bar}", ratio >= bar)
        for run in runs:
            if run["system"] in (OURS, PROGRAM) and (run["rows"], run["level"]) == (rows, level):
                peak, whose = run["peak_bytes"], " of `hipslake ingest`" if run["system"] == PROGRAM else ""
                yield Verdict(f"{where}: peak memory{whose}, GiB", peak / 2**30, "<= 6", peak <= MEMORY_BAR)
        told = [
            line for run in runs if (run["rows"], run["level"]) == (rows, level) for line in run["unequal"]
        ]
        yield Verdict(f"{where}: equal leaves and encodings", "; ".join(told) or "yes", "yes", not told)
    for level in sorted({level for _, level in cells}):
        small, large = (of_cell(runs, OURS, rows, level, "seconds") for rows in (20_000_000, 80_000_000))
        if small and large:
            growth = large / small
            yield Verdict(
                f"zstd-{level}: 80M rows over 20M, session up",
                growth,
                f"<= {GROWTH_BAR}",
                growth <= GROWTH_BAR,
            )
