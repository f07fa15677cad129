"""An append, killed at every moment: readers see the version before or the one after; its retry ends it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.steps.run import RunFolder
from hipslake.versions.write_id import is_write_id

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.system.dying import Change, changes, killed_before
from tests.system.runs import DEAD_AT_ONCE

COLUMNS = ["id", "ra", "dec", "mag", "night"]


def append_and_show(folder: RunFolder) -> None:
    """What is left of a counted run."""
    in_process.append(folder, cores=1)  # in one thread, so that the moments are the same each time
    in_process.show(folder)


@dataclass(frozen=True)
class Stage:
    """A catalog of three nights, and a run that replaces one of them."""

    survey: Survey
    folder: RunFolder
    before: pa.Table
    after: pa.Table
    changes: list[Change]

    @property
    def warehouse(self) -> Path:
        return self.survey.place / "warehouse"

    def set(self, moment: int) -> None:
        """Make the warehouse as it was right before a change."""
        shutil.rmtree(self.warehouse)
        shutil.copytree(self.survey.place / "moments" / str(moment), self.warehouse, symlinks=True)

    def seen(self) -> int:
        """Which version readers see, checked whole."""
        catalog = Catalog.open(self.survey.root)
        rows = catalog.read().select(COLUMNS).sort_by("id").combine_chunks()
        assert rows.equals({3: self.before, 4: self.after}[catalog.version])
        return catalog.version


@pytest.fixture(scope="module", params=["rewrite", pytest.param("add_file", marks=pytest.mark.slow)])
def stage(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Stage:
    place = tmp_path_factory.mktemp("append")
    survey = Survey(place, more=f"append: {request.param}\nmargin: {{arcsec: [60]}}")
    for number in range(3):
        survey.night(number, rows=150)
    before = rows_of(survey)
    survey.land(1, night_rows(1, rows=170, seed=6))
    folder = survey.start(1)
    made = changes(str(survey.place / "warehouse"), str(place / "moments"), append_and_show, folder)
    return Stage(survey, folder, before, rows_of(survey), made)


def rows_of(survey: Survey) -> pa.Table:
    return pa.concat_tables(survey.landed.values()).sort_by("id").combine_chunks()


def commit(stage: Stage) -> int:
    """The number of the change that is the commit."""
    found = [n for n, change in enumerate(stage.changes) if change.path.endswith("_versions/00000004.json")]
    return found[0]


@pytest.mark.slow
def test_readers_see_one_version_or_the_other_at_every_moment(stage: Stage) -> None:
    for moment in range(len(stage.changes)):
        stage.set(moment)
        assert stage.seen() == (3 if moment <= commit(stage) else 4), stage.changes[moment]


@pytest.mark.parametrize("every", [84, pytest.param(7, marks=pytest.mark.slow)])
def test_whenever_it_is_killed_its_retry_ends_it_and_leaves_no_orphan(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    about_commit = range(max(0, commit(stage) - 2), commit(stage) + 4)
    for moment in sorted({*range(0, len(stage.changes), every), *about_commit}):
        stage.set(moment)
        append_and_show(stage.folder)
        assert stage.seen() == 4
        catalog = stage.survey.catalog
        catalog.verify().raise_if_failed()
        stage.survey.start(0)  # the next run sweeps, and has nothing to do
        needed = {increment.write_id for increment in catalog.increments} | {catalog.metadata.write_id}
        for version in catalog.versions():
            needed.add(Catalog.open(catalog.uri, version=version).metadata.write_id)
        found = {path.name for path in stage.survey.root.iterdir() if is_write_id(path.name)}
        assert found - needed == set(), stage.changes[moment]


def test_a_process_that_is_killed_leaves_what_its_retry_can_end(stage: Stage) -> None:
    for moment in (commit(stage) - 1, commit(stage), commit(stage) + 1):
        stage.set(0)
        killed_before(moment, str(stage.warehouse), append_and_show, stage.folder)
        stage.seen()
        append_and_show(stage.folder)
        assert stage.seen() == 4
