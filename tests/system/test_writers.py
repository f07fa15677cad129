"""Many writers at once: every increment lands once, and versions follow one another without a gap."""

from __future__ import annotations

import multiprocessing
import uuid
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from hipslake.errors import ConflictError
from hipslake.steps.append import AppendReport

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.steps.store_nights import StoreSurvey
from tests.stores.proxy import running_proxy
from tests.stores.s3_server import S3Server

WRITERS, NIGHTS, RETRIES = 8, 10, 2
ROWS = 120


def append_nights(survey: Survey, writer: int) -> list[AppendReport]:
    """Append the nights of one writer, one after the other, as tasks with retries do."""
    survey.runs = 1000 * writer
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
    check_that_all_land_once(Survey(tmp_path))


@pytest.mark.slow
def test_eighty_increments_land_once_in_a_store_that_loses_answers(
    tmp_path: Path, bucket: str, s3_server: S3Server
) -> None:
    survey = StoreSurvey(tmp_path, uri=f"{bucket}/{uuid.uuid4().hex}")
    with running_proxy(s3_server.endpoint) as proxy, S3Server(proxy.endpoint).reached():
        lost = proxy.drop_answers("PUT", r"/_versions/\d+\.json", times=WRITERS * NIGHTS / 2)
        check_that_all_land_once(survey)
    assert lost.met == WRITERS * NIGHTS / 2


def check_that_all_land_once(survey: Survey) -> None:
    """Land nights, let the writers append them, and look at what there is."""
    for number in range(WRITERS * NIGHTS):
        survey.land(number, night_rows(number, ROWS), files=1)
    assert survey.spec.exists()
    with ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        done = [pool.submit(append_nights, survey, writer) for writer in range(WRITERS)]
        reports = [report for future in done for report in future.result()]
    assert sorted(report.version or 0 for report in reports) == list(range(1, WRITERS * NIGHTS + 1))
    survey.assert_holds_what_landed()
    catalog = survey.catalog
    assert catalog.versions() == list(range(1, WRITERS * NIGHTS + 1))
    assert {increment.rows for increment in catalog.metadata.increments} == {ROWS}
    assert len({increment.key for increment in catalog.metadata.increments}) == WRITERS * NIGHTS
