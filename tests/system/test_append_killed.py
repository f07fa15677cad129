"""An append, killed at every moment: readers see the version before or the one after; its retry ends it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.steps.run import RunFolder
from hipslake.versions.write_id import is_write_id

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.system.dying import killed_before
from tests.system.night_stage import NightStage, changes_of_run
from tests.system.runs import DEAD_AT_ONCE

COLUMNS = ["id", "ra", "dec", "mag", "night"]


def append_and_show(folder: RunFolder) -> None:
    """What is left of a counted run."""
    in_process.append(folder, cores=1)  # in one thread, so that the moments are the same each time
    in_process.show(folder)


class Stage(NightStage[Survey, pa.Table]):
    """Nights in mode append."""

    def seen(self) -> int:
        """Which version readers see, checked whole."""
        catalog = Catalog.open(self.survey.root)
        rows = catalog.read().select(COLUMNS).sort_by("id").combine_chunks()
        assert rows.equals({3: self.before, 4: self.after}[catalog.version])
        return catalog.version

    def assert_retry_ends_it(self) -> None:
        """Run the run again; the next one sweeps what it left."""
        append_and_show(self.folder)
        assert self.seen() == 4
        catalog = self.survey.catalog
        catalog.verify().raise_if_failed()
        self.survey.start(0)
        needed = {increment.write_id for increment in catalog.increments} | {catalog.metadata.write_id}
        for version in catalog.versions():
            needed.add(Catalog.open(catalog.uri, version=version).metadata.write_id)
        found = {path.name for path in self.survey.root.iterdir() if is_write_id(path.name)}
        assert found - needed == set()


@pytest.fixture(scope="module", params=["rewrite", pytest.param("add_file", marks=pytest.mark.slow)])
def stage(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Stage:
    place = tmp_path_factory.mktemp("append")
    survey = Survey(place, more=f"append: {request.param}\nmargin: {{arcsec: [60]}}")
    for number in range(3):
        survey.night(number, rows=150)
    before = rows_of(survey)
    survey.land(1, night_rows(1, rows=170, seed=6))
    folder = survey.start(1)
    made = changes_of_run(survey, folder, append_and_show)
    return Stage(survey, folder, before, rows_of(survey), made)


@pytest.fixture(scope="module")
def moments(stage: Stage) -> Stage:
    """The stage with a copy of every moment."""
    return stage.with_moments(append_and_show)


def rows_of(survey: Survey) -> pa.Table:
    return pa.concat_tables(survey.landed.values()).sort_by("id").combine_chunks()


@pytest.mark.slow
def test_readers_see_one_version_or_the_other_at_every_moment(moments: Stage) -> None:
    for moment in range(len(moments.changes)):
        moments.set(moment)
        assert moments.seen() == (3 if moment <= moments.commit else 4), moments.changes[moment]


@pytest.mark.slow
def test_whenever_it_is_killed_its_retry_ends_it_and_leaves_no_orphan(
    moments: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    about_commit = range(max(0, moments.commit - 2), moments.commit + 4)
    for moment in sorted({*range(0, len(moments.changes), 7), *about_commit}):
        moments.set(moment)
        moments.assert_retry_ends_it()


def test_a_process_that_is_killed_leaves_what_its_retry_can_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    for moment in (stage.commit // 2, stage.commit, stage.commit + 1):
        stage.set(0)
        killed_before(moment, str(stage.warehouse), append_and_show, stage.folder)
        assert stage.seen() == (3 if moment <= stage.commit else 4), stage.changes[moment]
        stage.assert_retry_ends_it()
