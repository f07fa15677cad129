"""Append, rollback, view and vacuum, killed at any moment: versions stay whole, and no orphan is left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.specs.catalog_spec import Unchanged
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.upkeep import rollback_catalog, vacuum_catalog
from hipslake.steps.upkeep.hats_view import show_newest
from hipslake.steps.upkeep.request import RollbackReport, RollbackRequest, VacuumReport, VacuumRequest
from hipslake.storage.folder import Storage

from tests.catalog.leftovers import missing, orphans
from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.system.dying import Change, changes, killed_before
from tests.system.runs import DEAD_AT_ONCE, assert_verified

MOMENTS = 16
"""So many moments are looked at, spread evenly over all between the changes that a task makes."""


@dataclass(frozen=True)
class Stage:
    """A catalog of three nights, and a task that is about to change it."""

    survey: Survey
    start: Path  # the warehouse as it was before the task
    task: Callable[[], object]

    @property
    def root(self) -> Path:
        return self.survey.root

    @property
    def warehouse(self) -> Path:
        return self.survey.place / "warehouse"

    def moments(self) -> list[Change]:
        """Run the task to its end, leaving a copy of the warehouse for every moment."""
        return changes(str(self.warehouse), str(self.survey.place / "moments"), self.task)

    def set(self, place: Path) -> None:
        """Put the warehouse back to a copy of it."""
        shutil.rmtree(self.warehouse)
        shutil.copytree(place, self.warehouse, symlinks=True)

    def assert_whole(self, *, pointed_at: bool = True) -> list[int]:
        """Check that no file of any version is missing, and verify the newest; the numbers of all."""
        assert missing(self.root) == set()
        newest = Catalog.open(self.root)
        assert_verified(newest, pointed_at=pointed_at)
        return newest.versions()


def spread(made: list[Change]) -> range:
    """The numbers of some moments."""
    return range(0, len(made), max(1, len(made) // MOMENTS))


@dataclass(frozen=True)
class RollBack:
    folder: RunFolder
    version: int

    def __call__(self) -> None:
        request = RollbackRequest(run_uri=self.folder.uri, version=self.version)
        perform(rollback_catalog.run, request, RollbackReport)
        in_process.show(self.folder)


@dataclass(frozen=True)
class Vacuum:
    warehouse: Path
    keep_versions: int = 1

    def __call__(self) -> None:
        request = VacuumRequest(
            run_uri=run_uri(str(self.warehouse), "catalog_vacuum__stars", "clean"),
            warehouse=str(self.warehouse),
            catalog="stars",
            keep_versions=self.keep_versions,
            keep_days=0,
            dry_run=False,
        )
        perform(vacuum_catalog.run, request, VacuumReport)


@dataclass(frozen=True)
class Append:
    folder: RunFolder

    def __call__(self) -> None:
        in_process.append(self.folder)
        in_process.show(self.folder)


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    """Three nights, shown to HATS readers."""
    survey = Survey(tmp_path, threshold="100 rows")
    for number in range(3):
        survey.night(number, rows=150)
        show_newest(Storage.at(survey.root), Unchanged.LINK)
    return survey


def stage(survey: Survey, task: Callable[[], object]) -> Stage:
    start = survey.place / "start"
    shutil.copytree(survey.place / "warehouse", start, symlinks=True)
    return Stage(survey, start, task)


@pytest.mark.slow
def test_a_vacuum_that_is_killed_is_completed_by_the_next(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    at = stage(survey, Vacuum(survey.place / "warehouse"))
    made = at.moments()
    assert sum(change.event == "os.remove" and "/2" in change.path for change in made) > 5
    copies = survey.place / "moments"
    for number in [*spread(made), len(made) - 1]:
        at.set(copies / str(number))
        assert at.assert_whole()[-1] == 3, made[number]
        at.task()
        assert at.assert_whole() == [3]
        assert orphans(at.root) == set(), made[number]
        survey.assert_holds_what_landed()


@pytest.mark.slow
def test_a_rollback_that_is_killed_stands_or_does_not_and_its_retry_completes_it(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = survey.start(0)
    at = stage(survey, RollBack(folder, 1))
    made = at.moments()
    copies = survey.place / "moments"
    rows = {version: Catalog.open(at.root, version=version).read() for version in (1, 3)}
    commit = next(n for n, change in enumerate(made) if change.path.endswith("_versions/00000004.json"))
    for number in [*spread(made), commit, commit + 1]:
        at.set(copies / str(number))
        stands = number > commit
        assert at.assert_whole(pointed_at=not stands) == [1, 2, 3, 4][: 3 + stands], made[number]
        assert Catalog.open(at.root).read().equals(rows[1 if stands else 3])
        at.task()
        assert at.assert_whole() == [1, 2, 3, 4]
        assert Catalog.open(at.root).read().equals(rows[1])
        assert Catalog.open(at.root).metadata.write_id in (at.root / "collection.properties").read_text()
        with monkeypatch.context() as dead:
            for name, value in DEAD_AT_ONCE.items():
                dead.setenv(name, value)
            Vacuum(at.warehouse)()
        assert at.assert_whole() == [4]
        assert orphans(at.root) == set(), made[number]


@pytest.mark.slow
def test_after_an_append_that_is_killed_a_vacuum_leaves_no_orphan(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey.land(3, night_rows(3, 150))
    at = stage(survey, Append(survey.start(3)))
    made = at.moments()
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    for number in spread(made):
        at.set(survey.place / "moments" / str(number))
        before = Catalog.open(at.root).read()
        Vacuum(at.warehouse)()
        at.assert_whole()
        assert Catalog.open(at.root).read().equals(before)
        if [*at.root.glob("_versions/intents/*.json")]:  # killed at the commit: until its number is taken
            survey.night(4, rows=50)
            Vacuum(at.warehouse)()
            at.assert_whole()
        assert orphans(at.root) == set(), made[number]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_vacuum_whose_process_is_killed_leaves_whole_versions(
    survey: Survey, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Vacuum(survey.place / "warehouse", keep_versions=2)
    at = stage(survey, task)
    moment = int(share * len(at.moments()))
    at.set(at.start)
    killed_before(moment, str(at.warehouse), task)
    at.assert_whole()
    for name, value in DEAD_AT_ONCE.items():  # else what the first one was about to write is too young to go
        monkeypatch.setenv(name, value)
    task()
    assert at.assert_whole() == [2, 3]
    assert orphans(at.root) == set()
    survey.assert_holds_what_landed()
