"""A night in mode upsert, killed at every moment of every step: its retry ends as if nothing had been."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hipslake import Catalog
from hipslake.steps.run import RunFolder

from tests.catalog.leftovers import missing, orphans
from tests.steps import in_process
from tests.steps.upserts import TWO_GROUPS, Record, UpsertSurvey, plain_rows, rows_of, state_of, table_of
from tests.system.dying import killed_before
from tests.system.night_stage import NightStage, changes_of_run
from tests.system.runs import DEAD_AT_ONCE

KEYS = 70
FORMS = {"rewrite": "append: rewrite\n", "add_file": f"append: add_file{TWO_GROUPS}"}


def upsert_and_show(folder: RunFolder) -> None:
    """Every step of a resolved run."""
    in_process.freeze(folder)
    in_process.count(folder, cores=1)  # in one thread, so that the moments are the same each time
    in_process.append(folder, cores=1)
    in_process.show(folder)


def records(number: int, seed: int = 0, *, keys: Sequence[int] = range(KEYS)) -> list[Record]:
    """Records of some keys: a fifth deletes, the others at places that change from record to record."""
    rng = np.random.default_rng([number, seed])
    found = []
    for key in rng.choice(keys, len(keys) * 2 // 3, replace=False).tolist():
        seq = 10 * int(rng.integers(0, 9)) + number  # no two nights bring the same order
        place = (None, None) if rng.random() < 0.2 else (rng.uniform(0, 40), rng.uniform(-20, 20))
        found.append(Record("D" if place[0] is None else "U", key, seq, *place, rng.normal(), number))
    return found


class Stage(NightStage[UpsertSurvey, list[tuple[Any, ...]]]):
    """Nights in mode upsert."""

    def seen(self) -> int:
        """Which version readers see, by the library and by plain pyarrow."""
        catalog = Catalog.open(self.survey.root)
        expected = {3: self.before, 4: self.after}[catalog.version]
        assert sorted(rows_of(catalog.read())) == expected
        assert plain_rows(self.survey, catalog.metadata) == expected
        assert missing(self.survey.root) == set()
        return catalog.version

    def assert_retry_ends_it(self) -> None:
        """Run the run again; what it left goes, and the night that was replaced may come back."""
        upsert_and_show(self.folder)
        assert self.seen() == 4
        self.survey.assert_holds_the_state()
        for step in (lambda: self.survey.start(0), self._vacuum):  # the next run sweeps what is dead
            step()
            assert self.seen() == 4
        assert orphans(self.survey.root) == set()

    def _vacuum(self) -> None:
        self.survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)


@pytest.fixture(scope="module", params=["rewrite", pytest.param("add_file", marks=pytest.mark.slow)])
def stage(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Stage:
    place = tmp_path_factory.mktemp("upsert")
    more = f"{FORMS[request.param]}margin: {{arcsec: [3600]}}"
    survey = UpsertSurvey(place, threshold="25 rows", more=more)
    for number in range(3):
        survey.upsert(number, records(number))
    in_process.show(survey.begin())
    before = sorted(record.row for record in survey.state.values())
    survey.land(1, table_of(records(1, seed=1)))
    folder = survey.resolve(1)
    made = changes_of_run(survey, folder, upsert_and_show)
    survey.nights[1] = records(1, seed=1)
    after = sorted(record.row for record in survey.state.values())
    assert brings_every_kind_of_change(survey)
    return Stage(survey, folder, before, after, made)


@pytest.fixture(scope="module")
def moments(stage: Stage) -> Stage:
    """The stage with a copy of every moment."""
    return stage.with_moments(upsert_and_show)


def brings_every_kind_of_change(survey: UpsertSurvey) -> bool:
    """Whether the night that comes again inserts, updates, deletes, and has rows of other nights return."""
    old = state_of(survey.nights | {1: records(1)}, ordered=True)
    new = survey.state
    both = old.keys() & new.keys()
    returned = [key for key in both if old[key].night == 1 != new[key].night]
    updated = [key for key in both if old[key] != new[key]]
    return bool(new.keys() - old.keys() and old.keys() - new.keys() and updated and returned)


@pytest.mark.slow
def test_readers_see_one_version_or_the_other_at_every_moment(moments: Stage) -> None:
    for moment in range(len(moments.changes)):
        moments.set(moment)
        assert moments.seen() == (3 if moment <= moments.commit else 4), moments.changes[moment]


@pytest.mark.slow
def test_whenever_it_is_killed_its_retry_ends_it_and_a_vacuum_takes_what_it_left(
    moments: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    about_commit = range(moments.commit - 1, moments.commit + 3)
    for moment in sorted({*range(0, len(moments.changes), 4), *about_commit}):
        moments.set(moment)
        moments.assert_retry_ends_it()


@pytest.mark.slow
def test_another_night_may_come_before_the_retry(moments: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the killed run left keeps nobody else from their work, and its retry merges into theirs."""
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    survey, nights = moments.survey, dict(moments.survey.nights)
    for moment in range(0, moments.commit + 1, 9):
        moments.set(moment)
        survey.nights = {**nights, 1: records(1)}
        survey.upsert(5, records(5, keys=range(20, KEYS + 20)))
        survey.assert_holds_the_state()
        upsert_and_show(moments.folder)
        survey.nights[1] = nights[1]
        survey.assert_holds_the_state()
        assert survey.catalog.versions() == [1, 2, 3, 4, 5]
    survey.nights = nights


def test_a_process_that_is_killed_leaves_what_its_retry_can_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    for moment in (stage.commit // 2, stage.commit, stage.commit + 1):
        stage.set(0)
        killed_before(moment, str(stage.warehouse), upsert_and_show, stage.folder)
        assert stage.seen() == (3 if moment <= stage.commit else 4), stage.changes[moment]
        stage.assert_retry_ends_it()
