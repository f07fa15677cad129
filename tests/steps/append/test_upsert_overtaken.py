"""Upserts that others overtake, and many at once: the outcome is that of the records of all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.examples import examples
from tests.steps import in_process
from tests.steps.append.overtaking import Overtake
from tests.steps.nights import FIRST
from tests.steps.upserts import TWO_GROUPS, Record, UpsertHistory, UpsertSurvey, table_of


def night(number: int, keys: range, *, ra: float = 40.0) -> list[Record]:
    """Records of some keys, a tenth of them deletes, with an order of their own."""
    rng = np.random.default_rng(number)
    return [
        Record(
            "D" if key % 10 == number else "U",
            key,
            100 * key + number,
            ra + rng.uniform(0, 3),
            rng.uniform(0, 3),
            1.0,
            number,
        )
        for key in keys
    ]


@pytest.fixture(
    params=[("rewrite", UpsertSurvey), ("add_file", UpsertSurvey), ("add_file", UpsertHistory)],
    ids=["rewrite", "add_file", "validity"],
)
def survey(tmp_path: Path, request: pytest.FixtureRequest) -> UpsertSurvey:
    append, kind = request.param
    survey: UpsertSurvey = kind(
        tmp_path, threshold="30 rows", more=f"append: {append}\nmargin: {{arcsec: 600}}"
    )
    survey.upsert(0, night(0, range(100)))
    return survey


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("keys", "ra", "merges"),
    [(range(50, 60), 200.0, 2), (range(500, 560), 200.0, 1), (range(500, 560), 40.0, 2)],
    ids=["same keys elsewhere", "other keys elsewhere", "other keys in the same leaves"],
)
def test_another_night(survey: UpsertSurvey, overtake: Overtake, keys: range, ra: float, merges: int) -> None:
    survey.land(1, table_of(night(1, range(40, 70))))
    first = survey.start(1)
    report = overtake(first, lambda: survey.upsert(2, night(2, keys, ra=ra)))
    survey.nights[1] = night(1, range(40, 70))
    if "add_file" not in survey.more or keys.start == 50:  # further files of a leaf may fit beside each other
        assert report.merges == merges
    survey.assert_holds_the_state()


@pytest.mark.sampled(3)
def test_a_rollback_and_the_same_night(survey: UpsertSurvey, overtake: Overtake) -> None:
    survey.upsert(1, night(1, range(30, 90)))
    survey.land(2, table_of(night(2, range(20, 80))))
    overtake(survey.start(2), lambda: survey.catalog.rollback(1))
    survey.nights = {0: survey.nights[0], 2: night(2, range(20, 80))}
    survey.assert_holds_the_state()
    survey.land(1, table_of(night(3, range(60))))
    first = survey.start(1)
    folder = survey.place / "landing" / f"night={FIRST + timedelta(days=1):%Y-%m-%d}"
    pq.write_table(table_of(night(4, range(100, 130))), folder / "more.parquet")
    second = survey.start(1)
    overtake(first, lambda: in_process.append(second))
    survey.nights[1] = night(3, range(60))
    survey.assert_holds_the_state()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("more", "kind"),
    [("", UpsertSurvey), (f"append: add_file{TWO_GROUPS}", UpsertSurvey), (TWO_GROUPS, UpsertHistory)],
)
def test_writers_of_the_same_keys(tmp_path: Path, more: str, kind: type[UpsertSurvey]) -> None:
    survey = kind(tmp_path, threshold="30 rows", more=more)
    folders, writers = [], examples(8, part=2)
    for number in range(writers):
        survey.nights[number] = night(number, range(10 * number, 10 * number + 60))
        survey.land(number, table_of(survey.nights[number]))
        folders.append(survey.start(number))
    with ThreadPoolExecutor(writers) as pool:
        reports = list(pool.map(in_process.append, folders))
    assert sorted(report.version or 0 for report in reports) == list(range(1, writers + 1))
    survey.assert_holds_the_state()
