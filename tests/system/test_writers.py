"""Many writers at once: every increment lands once, and versions follow one another without a gap."""

from __future__ import annotations

import math
import os
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hipslake.errors import ConflictError
from hipslake.steps.append.request import AppendReport

from tests.steps import in_process
from tests.steps.nights import FIRST, Survey, night_rows
from tests.steps.store_nights import StoreSurvey, UpsertStoreSurvey
from tests.steps.upserts import Record, UpsertSurvey, table_of
from tests.stores.proxy import Proxy
from tests.stores.s3_server import S3Server
from tests.system import forked

WRITERS, NIGHTS, RETRIES = 8, 10, 2
ROWS = 120
COMMIT = r"/_versions/(\d+)\.json"
PIN = r"/_versions/pins/[^/]+\.json"


def append_nights(survey: Survey, numbers: range) -> list[AppendReport]:
    """Append the nights of one writer, one after the other, as tasks with retries do."""
    return [_append(survey, number) for number in numbers]


def _append(survey: Survey, number: int) -> AppendReport:
    folder = survey.start(number)
    for attempt in range(RETRIES + 1):
        try:
            return in_process.append(folder)
        except ConflictError:
            if attempt == RETRIES:
                raise
    raise AssertionError


def append_all(survey_of: Callable[[int], Survey], nights: int, writers: int = WRITERS) -> list[AppendReport]:
    """Append all nights, dealt out to the writers, each of which is a process of its own.

    Parameters
    ----------
    survey_of : callable
        The survey as a writer has it, who numbers its runs from `1000 * writer` on.
    nights : int
        Per writer.
    writers : int
    """
    knowing = {"initializer": forked.take_environment, "initargs": (dict(os.environ),)}
    with ProcessPoolExecutor(writers, mp_context=forked.CLEAN, **knowing) as pool:
        done = [
            pool.submit(append_nights, survey_of(writer), range(writer, writers * nights, writers))
            for writer in range(writers)
        ]
        return [report for future in done for report in future.result()]


def assert_landed_once(survey: Survey, nights: int, reports: list[AppendReport]) -> None:
    """Check that every night is there once, and that every version was made by one append."""
    count = WRITERS * nights
    assert sorted(report.version or 0 for report in reports) == list(range(1, count + 1))
    survey.assert_holds_what_landed()
    catalog = survey.catalog
    assert catalog.versions() == list(range(1, count + 1))
    held = [(increment.key, increment.rows) for increment in catalog.increments]
    assert sorted(held) == sorted(
        ((FIRST + timedelta(days=number)).isoformat(), ROWS) for number in range(count)
    )
    standing: set[str | None] = set()
    by_version = {report.version: report.key for report in reports}
    for version in catalog.versions():
        opened = type(catalog).open(catalog.uri, version=version)
        metadata, keys = opened.metadata, {increment.key for increment in opened.increments}
        assert (metadata.version, metadata.parent) == (version, version - 1 or None)
        assert keys - standing == {by_version[version]}, "a version has its own night"
        assert standing < keys, "and all of those before"
        standing = keys


@pytest.mark.slow
def test_eighty_increments_of_eight_writers_land_once(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    for number in range(WRITERS * NIGHTS):
        survey.land(number, night_rows(number, ROWS), files=1)
    assert survey.spec.exists()
    reports = append_all(lambda writer: Survey(tmp_path, runs=1000 * writer), NIGHTS)
    assert_landed_once(survey, NIGHTS, reports)


@pytest.fixture
def proxy(s3_proxy: Proxy) -> Iterator[Proxy]:
    """A proxy before the server, by which this process and the writers reach it."""
    with S3Server(s3_proxy.endpoint).reached():
        yield s3_proxy


def commits(proxy: Proxy) -> list[tuple[int, int, str]]:
    """Every attempt to create a version: its number, the server's status, and the fault of its answer."""
    return [
        (int(found[1]), asked.status, asked.fault)
        for asked in proxy.asked
        if asked.method == "PUT" and (found := re.search(COMMIT, asked.path))
    ]


def most_at_work(proxy: Proxy) -> int:
    """How many writers have held a version at the same time, at most."""
    holding: set[str] = set()
    most = 0
    for asked in proxy.asked:
        if re.search(PIN, asked.path):
            (holding.add if asked.method == "PUT" else holding.discard)(asked.path)
            most = max(most, len(holding))
    return most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nights", "lost"),
    [
        pytest.param(1, True, id="eight, answers of commits are lost"),
        pytest.param(NIGHTS, False, id="eighty", marks=pytest.mark.slow),
        pytest.param(NIGHTS, True, id="eighty, answers of commits are lost", marks=pytest.mark.slow),
    ],
)
def test_increments_of_eight_writers_on_a_store_land_once(
    tmp_path: Path, bucket: str, proxy: Proxy, nights: int, lost: bool
) -> None:
    survey = StoreSurvey(tmp_path, uri=f"{bucket}/{uuid.uuid4().hex}")
    for number in range(WRITERS * nights):
        survey.land(number, night_rows(number, ROWS), files=1)
    assert survey.spec.exists()
    if lost:
        proxy.drop_answers("PUT", COMMIT, times=math.inf)
    reports = append_all(lambda writer: StoreSurvey(tmp_path, uri=survey.uri, runs=1000 * writer), nights)
    granted = [(number, fault) for number, status, fault in commits(proxy) if status == 200]
    every = range(1, WRITERS * nights + 1)
    assert sorted(granted) == [(number, "dropped" if lost else "") for number in every]
    assert most_at_work(proxy) > 2, "the writers did not meet"
    proxy.faults.clear()
    assert_landed_once(survey, nights, reports)


def records_of(number: int, count: int) -> list[Record]:
    """Records of one of so many nights, of keys that each brings a part of; those of a tenth are deletes."""
    rng = np.random.default_rng(number)
    return [
        Record("U", key, count * int(rng.integers(9)) + number, ra, dec, rng.normal(), number)
        if rng.random() > 0.1
        else Record("D", key, count * int(rng.integers(9)) + number, None, None, 0.0, number)
        for key, ra, dec in zip(
            rng.choice(2 * ROWS, ROWS, replace=False).tolist(),
            rng.uniform(0, 60, ROWS),
            rng.uniform(-30, 30, ROWS),
            strict=True,
        )
    ]


@pytest.mark.parametrize(
    ("writers", "nights", "ordered"),
    [
        pytest.param(4, 1, True, id="four"),
        pytest.param(WRITERS, 1, True, id="eight", marks=pytest.mark.slow),
        pytest.param(WRITERS, 1, False, id="eight, the latest night wins", marks=pytest.mark.slow),
        pytest.param(WRITERS, NIGHTS // 2, True, id="forty", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("where", [pytest.param("local", marks=pytest.mark.slow), "s3"])
def test_upserts_of_writers_with_the_same_keys_end_in_one_order(
    tmp_path: Path, request: pytest.FixtureRequest, where: str, writers: int, nights: int, ordered: bool
) -> None:
    """That of `order_by`, or of the nights: whoever was first, nothing is lost, and no key has two rows."""
    if where == "local":
        survey = UpsertSurvey(tmp_path, threshold="60 rows", ordered=ordered)
    else:
        uri = f"{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}"
        survey = UpsertStoreSurvey(tmp_path, threshold="60 rows", ordered=ordered, uri=uri)
    count = writers * nights
    for number in range(count):
        survey.nights[number] = records_of(number, count)
        survey.land(number, table_of(survey.nights[number]), files=1)
    assert survey.spec.exists()
    reports = append_all(lambda writer: replace(survey, runs=1000 * writer), nights, writers)
    assert sorted(report.version or 0 for report in reports) == list(range(1, count + 1))
    assert sum(report.merges for report in reports) > len(reports), "the writers did not meet"
    survey.assert_holds_the_state()
