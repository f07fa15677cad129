"""Deletes and reassignments whose processes are killed while they write to a store, one after the other."""

from __future__ import annotations

import math
import uuid
from pathlib import Path

import pytest

from tests.steps.deletions import DeletingStoreStars, DeletingStoreSurvey
from tests.stores.proxy import Proxy
from tests.system.hunting import COMMIT, Hunter, assert_nothing_is_left_over, killed
from tests.system.test_delete_killed import delete_and_show, reassign_and_show
from tests.system.test_upsert_killed import KEYS, records

MORE = "append: add_file\nmargin: {arcsec: [3600]}"
MAG = {"append": 3, "upsert": 4, "reassign": 4}
"""Which column of a row is its magnitude."""
CHOSEN = 4  # rows of each delete or reassignment


@pytest.mark.slow  # test_upsert_killed_in_store.py tries in each run what a kill leaves in a store
@pytest.mark.usefixtures("dead_at_once")
@pytest.mark.parametrize("kills", [1, 40])
@pytest.mark.parametrize("mode", ["append", "upsert", "reassign"])
def test_whenever_they_are_killed_their_retries_end_in_what_was_asked_for(
    tmp_path: Path, bucket: str, s3_proxy: Proxy, mode: str, kills: int
) -> None:
    uri = f"{bucket}/{uuid.uuid4().hex}"
    survey: DeletingStoreStars | DeletingStoreSurvey
    if mode == "append":
        survey = DeletingStoreStars(tmp_path, threshold="60 rows", more=MORE, uri=uri)
    else:
        survey = DeletingStoreSurvey(tmp_path, threshold="25 rows", more=MORE, uri=uri)

    def night(number: int) -> None:
        if isinstance(survey, DeletingStoreSurvey):
            survey.upsert(number, records(number, keys=range(KEYS * number, KEYS * number + KEYS)))
        else:
            survey.night(number, rows=100)

    def change(number: int, hunter: Hunter) -> bool:
        magnitudes = sorted(row[MAG[mode]] for row in survey.rows)
        at = 5 * number % (len(magnitudes) - CHOSEN - 1)
        cut = (magnitudes[at], magnitudes[at + CHOSEN + 1])
        before, to = {*survey.rows}, 100 + number
        if isinstance(survey, DeletingStoreSurvey) and mode == "reassign":
            was_killed = killed(s3_proxy, hunter, reassign_and_show, survey.begin(), cut, to)
            survey.note_reassigned_between(*cut, to)
        else:
            was_killed = killed(s3_proxy, hunter, delete_and_show, survey.begin(), cut)
            survey.note_deleted_between(*cut)
        assert len(before - {*survey.rows}) == CHOSEN
        survey.assert_holds_the_state()
        return was_killed

    night(0)
    counting = Hunter(math.inf)
    assert not change(0, counting)
    found, versions = [], 2
    for kill in range(kills):
        if kill % 8 == 0:  # so that there are rows again
            night(1 + kill // 8)
            versions += 1
        at = 1 + counting.writes * (2 * kill + 1) // (2 * kills)
        hunter = Hunter(at, commit=kill == kills - 1 or kill % 4 == 3)
        if change(kill + 1, hunter):
            found.append(hunter.killed)
    assert len(found) == kills
    assert any(COMMIT.search(request) for request in found)
    catalog = survey.catalog
    assert catalog.versions() == list(range(1, versions + kills + 1))
    catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_the_state()
    assert_nothing_is_left_over(survey.warehouse, tmp_path / "copy")
