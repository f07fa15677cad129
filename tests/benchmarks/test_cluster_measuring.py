"""How the benchmark of a Spark cluster judges its runs."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from benchmarks.cluster import (
    APART,
    BARS,
    CLUSTER,
    CROSSMATCH,
    INGEST,
    LOCAL,
    PLACES,
    REPEATS,
    ROWS,
    STEP,
    THRESHOLD,
    is_whole,
    page,
    unequal,
    verdicts,
)

LOCAL_SECONDS = (10.0, 40.0, 11.0)  # the median is 11


def runs(ratio: float, **of_cluster: Any) -> list[dict[str, Any]]:
    """Three runs of each task in each place; a cluster takes `ratio` times as long for what is judged."""
    found = []
    for task in BARS:
        for where in PLACES:
            for seconds in LOCAL_SECONDS:
                judged = seconds * (1.0 if where == LOCAL else ratio)
                run = {"task": task, "where": where, "rows": 0 if task == STEP else ROWS, "load": 1.0}
                run |= {"whole_seconds": judged, "phases": {"session": judged}}
                if task != STEP:
                    run |= {"seconds": judged, "whole_seconds": 99.0, "written": 7, "files": 2}
                    run |= of_cluster if where == CLUSTER else {}
                found.append(run)
    return found


@pytest.mark.parametrize(
    ("ratio", "passed"),
    [(1.0, {STEP, INGEST, CROSSMATCH}), (1.2, {STEP, INGEST}), (1.26, {STEP}), (2.1, set())],
)
def test_medians_of_each_cluster_are_held_against_those_of_local_cores(
    ratio: float, passed: set[str]
) -> None:
    judged = verdicts(runs(ratio))
    assert len(judged) == 2 * len(BARS)
    assert all(verdict.ratio == pytest.approx(ratio) for verdict in judged)
    for verdict, task in zip(judged, [task for task in BARS for _ in range(2)], strict=True):
        assert verdict.passed is (task in passed)


def test_other_rows_or_files_than_those_of_local_cores_are_told() -> None:
    assert unequal(runs(1.0)) == []
    for other in ({"written": 8}, {"files": 3}):
        assert [line.split(",")[0] for line in unequal(runs(1.0, **other))] == [INGEST, CROSSMATCH]


def test_the_page_tells_times_bars_and_phases_of_each_place() -> None:
    text = page(runs(1.2))
    assert "| ingest of 20M rows | cluster | 3 | 13.2 | 99.0 | 1 |" in text
    assert f"| one empty Spark step, whole: {APART} | 1.20 | <= 2.0 | pass |" in text
    assert "| 20M rows, ingest, session up: cluster | 1.20 | <= 1.25 | pass |" in text
    assert "| 20M rows, cross-match, session up: cluster | 1.20 | <= 1.15 | **FAIL** |" in text
    assert "| session | 11.0 | 13.2 | 13.2 |" in text


def test_only_a_whole_run_is_kept_in_the_documentation() -> None:
    whole = {"rows": [ROWS], "tasks": list(BARS), "places": list(PLACES), "repeats": REPEATS}
    whole |= {"threshold": THRESHOLD}
    assert is_whole(Namespace(**whole))
    parts = {"rows": [2_000_000], "tasks": [STEP], "places": [LOCAL, CLUSTER], "repeats": 1, "threshold": 9}
    for key, part in parts.items():
        assert not is_whole(Namespace(**whole | {key: part}))
