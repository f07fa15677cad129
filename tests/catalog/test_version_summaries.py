"""What a version is said to have changed, held against the change feed between it and the one before."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hipslake import Catalog
from hipslake.catalog.comparing import VersionSummary, summarize

from tests.steps.nights import Survey
from tests.steps.upserts import Record, UpsertSurvey


def summaries(survey: Survey) -> list[VersionSummary]:
    """Of each version but the first."""
    versions = [Catalog.open(survey.root, number).metadata for number in survey.catalog.versions()]
    return [summarize(survey.catalog.storage, new, old) for old, new in pairwise(versions)]


def records(number: int) -> list[Record]:
    rng = np.random.default_rng(number)
    found = []
    for key in rng.choice(60, 30, replace=False).tolist():
        op, seq = str(rng.choice(["I", "U", "D"])), 10 * int(rng.integers(50)) + number
        place = (None, None) if op == "D" else (rng.uniform(0, 60), rng.uniform(-30, 30))
        found.append(Record(op, key, seq, *place, rng.normal(), number))
    return found


@pytest.mark.parametrize("ordered", [True, False])
def test_nights_that_come_once_tell_what_the_feed_tells(tmp_path: Path, ordered: bool) -> None:
    survey = UpsertSurvey(tmp_path, threshold="20 rows", ordered=ordered)
    for number in (2, 0, 3, 1):
        survey.upsert(number, records(number))
    for told in summaries(survey):
        counts = survey.catalog.changes(told.version - 1, told.version).counts()
        expected = (counts["insert"], counts["update_after"], counts["delete"])
        assert (told.inserted, told.updated, told.deleted) == expected
        assert told.rows_added == expected[0] - expected[2]
        assert told.rows_replaced is None


def test_a_night_that_came_again_a_rollback_and_a_margin(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, threshold="20 rows")
    for number in (0, 1):
        survey.upsert(number, records(number))
    puts = len([each for each in records(1) if each.op != "D"])
    survey.upsert(1, [])
    survey.catalog.rollback(2)
    survey.catalog.build_margin(60.0)
    again, back, margin = summaries(survey)[1:]
    assert (again.rows_replaced, again.inserted, again.updated, again.deleted) == (puts, 0, 0, 0)
    for told in (back, margin):
        assert (told.rows_replaced, told.inserted, told.updated, told.deleted) == (None,) * 4


def test_nights_of_rows_that_are_appended(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    for number, rows in ((0, 40), (1, 30), (0, 20)):
        survey.night(number, rows=rows)
    told = summaries(survey)
    assert [(each.rows_added, each.rows_replaced, each.inserted) for each in told] == [
        (30, None, None),
        (-20, 40, None),
    ]


def test_deletes_are_told_in_both_modes(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path / "upserts", threshold="20 rows")
    survey.place.mkdir()
    survey.upsert(0, records(0))
    gone = sorted(survey.state)[:3]
    survey.catalog.delete(keys=gone, force=True)
    appended = Survey(tmp_path / "appended", threshold="20 rows")
    appended.place.mkdir()
    appended.night(0, rows=40)
    appended.catalog.delete(filters="id < 5", force=True)
    appended.night(0, rows=30)
    for told, rows in ((summaries(survey)[0], 3), (summaries(appended)[0], 5)):
        assert (told.kind, told.deleted, told.rows_added) == ("deleted", rows, -rows)
        assert (told.inserted, told.updated, told.rows_replaced) == (None, None, None)
    again = summaries(appended)[1]
    assert (again.rows_replaced, again.deleted, again.rows_added) == (40, None, -5)


def test_reassignments_are_told(tmp_path: Path) -> None:
    survey = UpsertSurvey(tmp_path, threshold="20 rows")
    survey.upsert(0, records(0))
    keys = sorted(survey.state)[:3]
    survey.catalog.reassign(keys, 77, column="night", force=True)
    (told,) = summaries(survey)
    assert (told.kind, told.rows_added) == ("reassigned", 0)
    assert (told.inserted, told.updated, told.deleted, told.rows_replaced) == (0, 3, 0, None)
    survey.catalog.rollback(1)
    assert summaries(survey)[1].kind == "rolled back"
