"""Runs that end without a version of theirs: whatever the end, no file of theirs stays in the catalog."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.errors import (
    HipslakeError,
    InputError,
    SchemaMismatchError,
    SourceNotFoundError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.steps.attempt_places import COMPACTIONS
from hipslake.steps.compact import run as compact_run
from hipslake.steps.frozen_run import FrozenRun
from hipslake.versions.log import VersionLog
from hipslake.versions.write_id import is_write_id

from tests.catalog.leftovers import orphans
from tests.steps import in_process
from tests.steps.in_process import ingest, start
from tests.steps.nights import FIRST, Survey, night_rows


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    """Two nights; each leaf has two files."""
    survey = Survey(tmp_path, more="append: add_file")
    for number in range(2):
        survey.land(number, night_rows(0, 60, number))
        survey.append(number)
    return survey


def waits(survey: Survey) -> None:
    """The files of its night have not come."""
    survey.begin()


def is_counted(survey: Survey) -> None:
    """Its next step does not come."""
    survey.land(2, night_rows(2, 60))
    survey.start(2)


def has_no_file(survey: Survey) -> None:
    survey.spec_text = survey.spec.read_text() + "on_empty: fail\n"
    survey.start(7)


def has_files_that_do_not_fit(survey: Survey) -> None:
    survey.land(2, night_rows(2, 60).drop_columns("mag"))
    survey.append(2)


def loses_its_files(survey: Survey) -> None:
    survey.land(2, night_rows(2, 60))
    run = survey.start(2)
    folder = survey.place / "landing" / f"night={FIRST + timedelta(days=2):%Y-%m-%d}"
    for path in folder.iterdir():
        path.unlink()
    in_process.append(run)


def has_come_before(survey: Survey) -> None:
    survey.start(1)


def has_nothing_to_compact(survey: Survey) -> None:
    assert survey.compact(min_files=9).version is None


def cannot_read_what_it_compacts(survey: Survey) -> None:
    for path in survey.root.glob("*/main/**/*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    survey.compact()


def has_no_version_to_bring_back(survey: Survey) -> None:
    survey.catalog.rollback(9)


Ending = Callable[[Survey], None]


@pytest.mark.parametrize(
    "ending",
    [waits, is_counted, has_come_before, has_nothing_to_compact],
    ids=lambda ending: ending.__name__,
)
def test_a_run_that_publishes_nothing_leaves_nothing(survey: Survey, ending: Ending) -> None:
    before = folders(survey)
    ending(survey)
    assert folders(survey) == before
    assert orphans(survey.root) == set()


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (has_no_file, SourceNotFoundError),
        (has_files_that_do_not_fit, SchemaMismatchError),
        (loses_its_files, InputError),
        (cannot_read_what_it_compacts, VerificationError),
        (has_no_version_to_bring_back, VersionNotFoundError),
    ],
    ids=lambda each: each.__name__,
)
def test_a_run_that_fails_leaves_nothing(survey: Survey, ending: Ending, error: type[HipslakeError]) -> None:
    before = folders(survey)
    with pytest.raises(error):
        ending(survey)
    assert folders(survey) == before
    assert orphans(survey.root) == set()


def folders(survey: Survey) -> set[str]:
    return {path.name for path in survey.root.iterdir() if path.is_dir() and is_write_id(path.name)}


def test_a_compaction_that_is_overtaken_before_it_begins_leaves_nothing(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compact_run.files_to_compact

    def overtaken(*given: object) -> object:
        """Another compaction comes between the look and the pin, and a vacuum takes what was looked at."""
        monkeypatch.setattr(compact_run, "files_to_compact", found)
        work = found(*given)  # type: ignore[arg-type]
        survey.compact()
        survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
        return work

    monkeypatch.setattr(compact_run, "files_to_compact", overtaken)
    run = survey.begin()
    assert in_process.compact(run).version is None
    with pytest.raises(VersionNotFoundError):
        VersionLog(survey.catalog.storage).read(2)
    [attempt] = (path.name for path in Path(run.uri, COMPACTIONS).iterdir())
    assert attempt not in folders(survey)
    assert orphans(survey.root) == set()


def test_a_run_that_waits_for_days_still_writes(
    warehouse: Path, spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = start(warehouse, spec_file)
    for limit in ("HIPSLAKE_RESTING_SECONDS", "HIPSLAKE_STALE_SECONDS"):
        monkeypatch.setenv(limit, "0")  # as if days had gone by when another run looks for dead writes
    start(warehouse, spec_file, "another")
    monkeypatch.undo()
    ingest(waiting)
    catalog = Catalog.open(FrozenRun.of(waiting).catalog_uri)
    assert catalog.metadata.write_id == FrozenRun.of(waiting).write_id
    catalog.verify().raise_if_failed()
