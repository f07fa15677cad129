"""What a program took is measured over all its processes, and judged by the bars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bars import LIMIT, OURS, PEER, PROGRAM, verdicts
from benchmarks.processes import ProgramError, run_measured, weigh
from benchmarks.reporting import draw, markdown, phases_of
from tests.benchmarks.records import record

MIB = 2**20
BEFORE_AND_AFTER_FORK = """
import os
before = bytearray(b"x") * ({before} << 20)
child = os.fork() == 0
if child:
    after = bytearray(b"x") * ({after} << 20)
    os.write(1, b".")
os.read(0, 1)
"""


def weighed(program: str) -> float:
    """Weigh a program and its child, in MiB, once the child has written a dot; then let them end."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        sample = weigh(process.pid)
    assert len(sample.cpu_seconds) == 2
    return sample.bytes / MIB


def test_memory_of_children_counts_too() -> None:
    assert 60 < weighed(BEFORE_AND_AFTER_FORK.format(before=0, after=60)) < 100


def test_pages_that_processes_share_count_once() -> None:
    assert 60 < weighed(BEFORE_AND_AFTER_FORK.format(before=60, after=0)) < 100


def test_a_program_is_timed_with_all_its_processes(tmp_path: Path) -> None:
    usage = run_measured([sys.executable, "-c", "sum(range(3_000_000))"], log=tmp_path / "log")
    assert 0 < usage.cpu_seconds < 2 * usage.seconds
    assert usage.peak_bytes > MIB


def test_a_failing_program_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="no such star"):
        run_measured([sys.executable, "-c", "raise SystemExit('no such star')"], log=tmp_path / "log")


def run(system: str, rows: int, level: int, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "system": system,
        "rows": rows,
        "level": level,
        "seconds": seconds,
        "whole_seconds": seconds + 10,
        "verify_seconds": 0.0,
        "cpu_seconds": 2 * seconds,
        "peak_bytes": 2**30,
        "phases": {"histogram": seconds / 4, "write": seconds * 3 / 4},
        "leaves": 51,
        "output_bytes": 10**9,
        "unequal": [],
        **more,
    }


def passed(runs: list[dict[str, Any]]) -> dict[str, bool]:
    return {verdict.what: verdict.passed for verdict in verdicts(runs)}


def test_bars_are_judged_on_medians() -> None:
    runs = [run(LIMIT, 20_000_000, 1, 10.0), run(PEER, 20_000_000, 1, 20.0)]
    fast = [run(OURS, 20_000_000, 1, seconds) for seconds in (14.0, 15.0, 100.0)]
    assert all(passed(runs + fast).values())
    slow = [run(OURS, 20_000_000, 1, seconds) for seconds in (14.0, 21.0, 22.0)]
    told = passed(runs + slow)
    assert not told["20M rows, zstd-1: session up, over two processes"]
    assert not told["20M rows, zstd-1: hats-import over us, whole process"]


def test_the_command_is_judged_as_a_whole_process_and_many_rows_by_a_bar_of_their_own() -> None:
    whole = "20M rows, zstd-1: `hipslake ingest` over two processes, whole process"
    for seconds, is_fine in ((22.0, True), (22.1, False)):  # and ten more of all
        runs = [run(LIMIT, 20_000_000, 1, 10.0), run(PROGRAM, 20_000_000, 1, seconds)]
        told = passed(runs)
        assert told.pop(whole) is is_fine
        assert told["20M rows, zstd-1: peak memory of `hipslake ingest`, GiB"]
        assert all(told.values())
    for seconds, is_fine in ((40.0, True), (40.1, False)):
        told = passed([run(LIMIT, 80_000_000, 1, 40.0), run(OURS, 80_000_000, 1, seconds)])
        assert told["80M rows, zstd-1: session up, over two processes"] is is_fine


def test_growth_memory_and_unequal_output_have_bars() -> None:
    runs = [
        run(OURS, 20_000_000, 1, 10.0),
        run(OURS, 80_000_000, 1, 43.0, peak_bytes=7 * 2**30, unequal=["one leaf differs"]),
    ]
    told = passed(runs)
    assert not told["zstd-1: 80M rows over 20M, session up"]
    assert told["20M rows, zstd-1: peak memory, GiB"]
    assert not told["80M rows, zstd-1: peak memory, GiB"]
    assert not told["80M rows, zstd-1: equal leaves and encodings"]


def test_the_page_names_machine_runs_and_bars_and_the_plot_is_drawn(tmp_path: Path) -> None:
    runs = [run(OURS, 20_000_000, 1, 12.0), run(LIMIT, 20_000_000, 1, 10.0)]
    result = record(verdicts, runs, date="2026-11-21", threshold_rows=1_000_000, step_cost=[])
    page = markdown(result)
    assert "some processor, 2 cores, 8 GiB" in page
    assert "| 20M | 1 | hipslake | 12.0 | 22.0 |" in page
    assert "| 1.20 | <= 1.5 | pass |" in page
    assert sum(phases_of(runs[0]).values()) == pytest.approx(22.0)
    draw(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
