"""Many writers at once: every increment lands once, and versions follow one another without a gap."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from hipslake.errors import ConflictError
from hipslake.steps.append import AppendReport

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows

WRITERS, NIGHTS, RETRIES = 8, 10, 2
ROWS = 120


def append_nights(place: Path, writer: int) -> list[AppendReport]:
    """Append the nights of one writer, one after the other, as tasks with retries do."""
    survey = Survey(place, runs=1000 * writer)
    return [_append(survey, number) for number in range(writer, WRITERS * NIGHTS, WRITERS)]


def _append(survey: Survey, number: int) -> AppendReport:
    folder = survey.start(number)
    for attempt in range(RETRIES + 1):
        try:
            return in_process.append(folder)
        except ConflictError:
            if attempt == RETRIES:
                raise
    raise AssertionError


def test_eighty_increments_of_eight_writers_land_once(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    for number in range(WRITERS * NIGHTS):
        survey.land(number, night_rows(number, ROWS), files=1)
    assert survey.spec.exists()
    clean = multiprocessing.get_context("forkserver")
    clean.set_forkserver_preload(["tests.steps.in_process"])
    with ProcessPoolExecutor(WRITERS, mp_context=clean) as pool:
        done = [pool.submit(append_nights, tmp_path, writer) for writer in range(WRITERS)]
        reports = [report for future in done for report in future.result()]
    assert sorted(report.version for report in reports) == list(range(1, WRITERS * NIGHTS + 1))
    survey.assert_holds_what_landed()
    catalog = survey.catalog
    assert catalog.versions() == list(range(1, WRITERS * NIGHTS + 1))
    assert {increment.rows for increment in catalog.metadata.increments} == {ROWS}
    assert len({increment.key for increment in catalog.metadata.increments}) == WRITERS * NIGHTS
