"""Increments on S3: the same as on local disk, also where the answers of commits get lost."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from pathlib import Path

import pytest

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.steps.store_nights import StoreSurvey
from tests.stores.proxy import running_proxy
from tests.stores.s3_server import S3Server


@pytest.fixture
def survey(tmp_path: Path, bucket: str) -> StoreSurvey:
    return StoreSurvey(tmp_path, uri=f"{bucket}/{uuid.uuid4().hex}")


@pytest.mark.slow
def test_nights_are_appended_replaced_and_kept(survey: StoreSurvey, tmp_path: Path) -> None:
    local = Survey(tmp_path / "local")
    local.place.mkdir()
    for number, seed in ((0, 0), (2, 0), (1, 0), (2, 7)):
        for kept in (survey, local):
            kept.night(number, seed=seed)
    survey.assert_holds_what_landed()
    remote = survey.catalog
    assert remote.versions() == [1, 2, 3, 4]
    assert remote.pixels == local.catalog.pixels
    assert remote.read().equals(local.catalog.read())
    assert type(remote).open(remote.uri, version=1).read().num_rows == 400


@pytest.mark.slow
def test_cheap_nights_are_gathered_and_compacted(survey: StoreSurvey) -> None:
    survey.more = "append: add_file"
    for number in range(4):
        survey.night(number)
    files = len(_paths(survey))
    survey.assert_holds_what_landed()
    before = survey.catalog.read()
    report = survey.compact()
    assert report.version == 5
    assert len(_paths(survey)) < files
    assert survey.catalog.read().equals(before)
    survey.assert_holds_what_landed()


@pytest.mark.slow
def test_margins_follow_nights_and_are_built_later(survey: StoreSurvey) -> None:
    survey.more = "margin: {arcsec: [3600]}"
    for number, seed in ((0, 0), (1, 0), (0, 5)):
        survey.night(number, rows=200, seed=seed)
        survey.assert_holds_what_landed()
    catalog = survey.catalog.build_margin(60)
    assert len(catalog.metadata.margins) == 2
    survey.night(2, rows=200)
    survey.assert_holds_what_landed()


@pytest.mark.slow
def test_commits_whose_answers_are_lost_are_made_once(survey: StoreSurvey, s3_server: S3Server) -> None:
    with running_proxy(s3_server.endpoint) as proxy, S3Server(proxy.endpoint).reached():
        lost = proxy.drop_answers("PUT", r"/_versions/\d+\.json", times=math.inf)
        for number in range(3):
            assert survey.night(number).version == number + 1
        assert lost.met == 3
        survey.assert_holds_what_landed()
        assert survey.catalog.versions() == [1, 2, 3]


@pytest.mark.slow
def test_lost_answers_of_every_kind_cost_no_row(survey: StoreSurvey, s3_server: S3Server) -> None:
    with running_proxy(s3_server.endpoint) as proxy, S3Server(proxy.endpoint).reached():
        for method, path in (("PUT", r"/warehouse/"), ("GET", r"/warehouse/"), ("POST", r"\?delete")):
            proxy.drop_answers(method, path, times=5)  # a night has no others
        for number in range(3):
            survey.night(number)
        survey.assert_holds_what_landed()
        assert [fault.met for fault in proxy.faults] == [5, 5, 5]


def test_a_night_asks_a_store_for_what_it_needs(survey: StoreSurvey, s3_server: S3Server) -> None:
    with running_proxy(s3_server.endpoint) as proxy, S3Server(proxy.endpoint).reached():
        before: list[int] = []
        for number in range(6):
            survey.land(number, night_rows(number, 120), files=1)
            proxy.clear()
            folder = survey.start(number)
            before.append(len(proxy.asked))
            proxy.clear()
            report = in_process.append(folder)
    assert report.removed_files > 1
    assert report.merges == 1
    leaf = Counter(asked.method for asked in proxy.asked if "/Npix" in asked.path)
    assert leaf["PUT"] == report.files
    assert leaf["GET"] <= report.files + 2 * report.removed_files, "a footer each, and the old ones whole"
    assert leaf["HEAD"] == 0, "how large they are is known"
    assert len(proxy.asked) - leaf.total() <= 72
    assert before[5] - before[2] <= 3, "for each version that stands, one request more"


def _paths(survey: StoreSurvey) -> list[str]:
    catalog = survey.catalog
    found: list[str] = catalog.metadata.partitions(None, catalog.storage)["path"].to_pylist()
    return found
