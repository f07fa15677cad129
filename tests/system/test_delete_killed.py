"""Deletes and reassignments, killed at every moment: a retry ends them, and nothing is done twice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hipslake import Catalog
from hipslake.steps.run import RunFolder

from tests.catalog.leftovers import missing, orphans
from tests.steps import in_process
from tests.steps.deletions import STAR, DeletingStars, DeletingSurvey
from tests.steps.nights import night_rows
from tests.steps.upserts import COLUMNS, TWO_GROUPS, plain_rows, rows_of
from tests.system.dying import killed_before
from tests.system.night_stage import NightStage, changes_of_run
from tests.system.test_upsert_killed import KEYS, records

STARS_IN_TWO = """
column_groups:
  - name: main
    columns: [id, ra, dec]
  - name: light
    columns: "*"
    threshold: 31 rows
"""
MARGIN = "\nmargin: {arcsec: [3600]}"
PARTS = 6  # that all moments are looked at in, as a test may not last for ever
Surveys = DeletingStars | DeletingSurvey
CUTS = {"append": (17.0, 19.5), "upsert": (-0.4, 0.7), "reassign": (-0.4, 0.7)}
"""Between which magnitudes rows are deleted, by mode; or, in mode upsert, given to another night."""
OTHER_NIGHT = 77


def delete_and_show(folder: RunFolder, cut: tuple[float, float]) -> None:
    """Every step of a resolved run that deletes the rows between two magnitudes."""
    in_process.delete(folder, filters=f"mag > {cut[0]} and mag < {cut[1]}", force=True)
    in_process.show(folder)


def reassign_and_show(folder: RunFolder, cut: tuple[float, float], to: int = OTHER_NIGHT) -> None:
    """Every step of a resolved run that gives the rows between two magnitudes to another night."""
    chosen = f"mag > {cut[0]} and mag < {cut[1]}"
    in_process.reassign(folder, filters=chosen, to=to, column="night", force=True)
    in_process.show(folder)


def task_of(kind: str) -> Callable[[RunFolder], None]:
    """What a run of a kind does."""
    return partial(reassign_and_show if kind == "reassign" else delete_and_show, cut=CUTS[kind])


def note(survey: Surveys, kind: str) -> None:
    """Note that a run of a kind has done it."""
    if isinstance(survey, DeletingSurvey) and kind == "reassign":
        survey.note_reassigned_between(*CUTS[kind], OTHER_NIGHT)
    else:
        survey.note_deleted_between(*CUTS[kind])


def survey_of(mode: str, place: Path, more: str) -> Surveys:
    """A catalog of three nights."""
    if mode != "append":
        survey = DeletingSurvey(place, threshold="25 rows", more=more + MARGIN)
        for number in range(3):
            survey.upsert(number, records(number))
        return survey
    stars = DeletingStars(place, threshold="60 rows", more=more + MARGIN)
    for number in range(3):
        stars.night(number, rows=70)
    return stars


def bring_night(survey: Surveys) -> None:
    """Append or upsert a fourth night, of rows that the delete chooses and of others."""
    if isinstance(survey, DeletingSurvey):
        survey.upsert(5, records(5, keys=range(20, KEYS + 20)))
    else:
        survey.land(5, night_rows(5, rows=50))
        survey.append(5)
    in_process.show(survey.begin())  # which mends what names the newest version


@dataclass(frozen=True)
class Stage(NightStage[Surveys, list[tuple[Any, ...]]]):
    """A catalog of three nights, and a run that deletes or reassigns rows of all of them.

    Attributes
    ----------
    kind : str
        Of the run.
    earlier : DeletingStars or DeletingSurvey
        The survey as it was before the run.
    """

    kind: str
    earlier: Surveys

    def retry(self) -> None:
        """Run the run again, to its end."""
        task_of(self.kind)(self.folder)

    def seen(self) -> int:
        """Which version readers see, by the library and by plain pyarrow."""
        survey = self.survey
        columns = COLUMNS if isinstance(survey, DeletingSurvey) else STAR
        catalog = Catalog.open(survey.root)
        expected = {3: self.before, 4: self.after}[catalog.version]
        assert sorted(rows_of(catalog.read(), columns)) == expected
        assert plain_rows(survey, catalog.metadata, columns) == expected
        assert missing(survey.root) == set()
        return catalog.version

    def assert_retry_ends_it(self) -> None:
        """Run the run again, and look at the outcome, also when what it left has gone."""
        self.retry()
        assert self.seen() == 4
        assert not list(self.warehouse.rglob("rows.parquet")), "a copy of changed rows stays"
        self.survey.assert_holds_the_state()
        for step in (self.survey.begin, self._vacuum):  # the next run sweeps what is dead
            step()
            assert self.seen() == 4
        assert orphans(self.survey.root) == set()

    def assert_night_may_come_before_the_retry(self, moment: int) -> None:
        """Killed before its commit, it takes rows of the night too; where it has committed, none."""
        survey = copy.deepcopy(self.earlier if moment <= self.commit else self.survey)
        bring_night(survey)
        survey.assert_holds_the_state()
        self.retry()
        if moment <= self.commit:
            note(survey, self.kind)
        survey.assert_holds_the_state()
        assert survey.catalog.versions() == [1, 2, 3, 4, 5]

    def _vacuum(self) -> None:
        self.survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)


@pytest.fixture(
    scope="module",
    params=[
        ("append", f"append: add_file{STARS_IN_TWO}"),
        ("upsert", "append: rewrite"),
        ("reassign", "append: rewrite"),
        pytest.param(("append", "append: rewrite"), marks=pytest.mark.slow),
        pytest.param(("upsert", f"append: add_file{TWO_GROUPS}"), marks=pytest.mark.slow),
        pytest.param(("reassign", f"append: add_file{TWO_GROUPS}"), marks=pytest.mark.slow),
    ],
    ids=["append, two groups", "upsert", "reassign", "append", "upsert, two groups", "reassign, two groups"],
)
def stage(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Stage:
    mode, more = request.param
    place = tmp_path_factory.mktemp("delete")
    survey = survey_of(mode, place, more)
    in_process.show(survey.begin())
    before, folder, earlier = survey.rows, survey.begin(), copy.deepcopy(survey)
    made = changes_of_run(survey, folder, task_of(mode))
    note(survey, mode)
    assert 10 < len({*before} & {*survey.rows}) < len(before) - 10
    return Stage(survey, folder, before, survey.rows, made, mode, earlier)


@pytest.fixture(scope="module")
def moments(stage: Stage) -> Stage:
    """The stage with a copy of every moment."""
    return stage.with_moments(task_of(stage.kind))


@pytest.mark.slow
def test_readers_see_one_version_or_the_other_at_every_moment(moments: Stage) -> None:
    for moment, change in enumerate(moments.changes):
        moments.set(moment)
        assert moments.seen() == (3 if moment <= moments.commit else 4), change


@pytest.mark.slow
@pytest.mark.usefixtures("dead_at_once")
@pytest.mark.parametrize("part", range(PARTS))
def test_whenever_it_is_killed_its_retry_ends_it_and_a_vacuum_takes_what_it_left(
    moments: Stage, part: int
) -> None:
    for moment in range(part, len(moments.changes), PARTS):
        moments.set(moment)
        moments.assert_retry_ends_it()


@pytest.mark.slow
@pytest.mark.usefixtures("dead_at_once")
def test_a_night_may_come_before_the_retry(moments: Stage) -> None:
    about_commit = range(moments.commit - 1, moments.commit + 3)
    for moment in sorted({*range(0, len(moments.changes), 9), *about_commit}):
        moments.set(moment)
        moments.assert_night_may_come_before_the_retry(moment)


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("dead_at_once")
def test_a_process_that_is_killed_leaves_what_its_retry_can_end(stage: Stage) -> None:
    task = task_of(stage.kind)
    for moment in (stage.commit // 2, stage.commit, stage.commit + 1):
        stage.set(0)
        killed_before(moment, str(stage.warehouse), task, stage.folder)
        assert stage.seen() == (3 if moment <= stage.commit else 4), stage.changes[moment]
        if moment <= stage.commit:
            stage.assert_retry_ends_it()
        else:
            stage.assert_night_may_come_before_the_retry(moment)
