"""Nights in mode upsert whose processes are killed while they write to a store, one after the other."""

from __future__ import annotations

import math
import uuid
from pathlib import Path

import pytest

from tests.steps.store_nights import UpsertStoreSurvey
from tests.steps.upserts import table_of
from tests.stores.proxy import Proxy
from tests.system.hunting import COMMIT, Hunter, assert_nothing_is_left_over, killed
from tests.system.test_upsert_killed import records, upsert_and_show


@pytest.mark.usefixtures("dead_at_once")
@pytest.mark.parametrize("kills", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_whenever_they_are_killed_their_retries_end_in_what_their_records_say(
    tmp_path: Path, bucket: str, s3_proxy: Proxy, kills: int
) -> None:
    survey = UpsertStoreSurvey(
        tmp_path,
        threshold="25 rows",
        more="append: add_file\nmargin: {arcsec: [3600]}",
        uri=f"{bucket}/{uuid.uuid4().hex}",
    )
    survey.upsert(0, records(0))
    writes = _writes_of_a_night(survey, s3_proxy)
    found = []
    for kill in range(kills):
        number = 1 + kill % 5
        survey.nights[number] = records(number, seed=kill + 1)
        survey.land(number, table_of(survey.nights[number]))
        at = 1 + writes * (2 * kill + 1) // (2 * kills)
        hunter = Hunter(at, commit=kill == kills - 1 or kill % 4 == 3)
        if killed(s3_proxy, hunter, upsert_and_show, survey.resolve(number)):
            found.append(hunter.killed)
        survey.assert_holds_the_state()
    assert len(found) == kills
    assert any(COMMIT.search(request) for request in found)
    catalog = survey.catalog
    assert catalog.versions() == list(range(1, kills + 3))
    catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_the_state()
    assert_nothing_is_left_over(survey.warehouse, tmp_path / "copy")


def _writes_of_a_night(survey: UpsertStoreSurvey, proxy: Proxy) -> int:
    """How many writes a night takes."""
    survey.nights[1] = records(1)
    survey.land(1, table_of(survey.nights[1]))
    counting = Hunter(math.inf)
    assert not killed(proxy, counting, upsert_and_show, survey.resolve(1))
    return counting.writes
