"""Records of benchmarks that nobody ran, for tests of bars and pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.bars import Verdict
from benchmarks.runs import DONE, OVER, Run

Judge = Callable[[list[Run]], Iterable[Verdict]]
MACHINE = {
    "processor": "some processor",
    "cores": 2,
    "memory_bytes": 8 * 2**30,
    "system": "Linux 6",
    "python": "3.11.7",
    "java": "openjdk 17",
    "versions": {"pyarrow": "26"},
    "peer_versions": {"peer": "5.3.0"},
}


def done(task: str, system: str, rows: int, seconds: float, **more: Any) -> Run:
    """A run that went well; starting took five seconds besides."""
    return {
        "task": task,
        "system": system,
        "rows": rows,
        "repeat": 0,
        "at": "2026-11-22 10:00",
        "outcome": DONE,
        "seconds": seconds,
        "whole_seconds": seconds + 5,
        "cpu_seconds": seconds,
        "peak_bytes": 2**30,
        "disk_bytes": 10**8,
        "phases": {},
        "files": 144,
        "bytes": 10**8,
        "right": True,
        **more,
    }


def ended(task: str, system: str, rows: int) -> Run:
    """A run that went over the ceiling."""
    run = done(task, system, rows, 0)
    kept = {key: run[key] for key in ("task", "system", "rows", "repeat", "at")}
    return kept | {"outcome": OVER, "told": "held 4.10 GiB after 9 s"}


def failures(verdicts: Judge, runs: list[Run]) -> list[str]:
    """The bars that some runs miss."""
    return [verdict.what for verdict in verdicts(runs) if not verdict.passed]


def record(verdicts: Judge, runs: list[Run], **more: Any) -> dict[str, Any]:
    """All that a page is made of."""
    return {
        "machine": MACHINE,
        "runs": runs,
        "verdicts": [verdict._asdict() for verdict in verdicts(runs)],
        **more,
    }
