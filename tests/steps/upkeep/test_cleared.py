"""Runs that are cleared, and so do their work once more in the folder that they had."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hipslake.steps.append.request import AppendReport
from hipslake.steps.compact.request import CompactReport
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder, Window

from tests.steps import in_process
from tests.steps.nights import FIRST, Survey, night_rows


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    survey = Survey(tmp_path, more="append: add_file")
    for number in (0, 1, 2):
        survey.land(number, night_rows(number, 60))
        run(survey, number)
    return survey


def start(survey: Survey, number: int, **fields: object) -> RunFolder:
    """The first task of the one run of a night."""
    begin = FIRST + timedelta(days=number)
    window = Window(start=begin, end=begin + timedelta(days=1), origin="data_interval")
    return in_process.start(survey.warehouse, survey.spec, f"night-{number}", window=window, **fields)


def go_on(folder: RunFolder) -> AppendReport:
    """Its other tasks."""
    in_process.freeze(folder)
    in_process.count(folder)
    return in_process.append(folder)


def run(survey: Survey, number: int, **fields: object) -> AppendReport:
    """All tasks of the one run of a night."""
    return go_on(start(survey, number, **fields))


def test_after_its_files_were_mended(survey: Survey) -> None:
    survey.land(1, night_rows(1, 100, 5))
    report = run(survey, 1)
    assert (report.version, report.replaced_rows, report.rows_out) == (4, 60, 100)
    survey.assert_holds_what_landed()


def test_from_the_task_on_that_lists_its_files(survey: Survey) -> None:
    survey.land(1, night_rows(1, 100, 5))
    window = FIRST + timedelta(days=1)
    folder = RunFolder(f"{survey.warehouse}/_runs/catalog_ingest__stars/night-1")
    assert FrozenRun.of(folder).start == window
    assert go_on(folder).version == 4
    survey.assert_holds_what_landed()


def test_after_a_rollback_to_before_it(survey: Survey) -> None:
    survey.catalog.rollback(1)
    for number in (1, 2):
        assert run(survey, number).version == 4 + number
    survey.assert_holds_what_landed()


def test_by_force(survey: Survey) -> None:
    assert run(survey, 1, force=True).version == 4
    survey.assert_holds_what_landed()


def test_a_task_that_is_only_tried_again_finds_its_commit(survey: Survey) -> None:
    folder = RunFolder(f"{survey.warehouse}/_runs/catalog_ingest__stars/night-1")
    folder.storage.delete(RunFolder.report_path("append"))
    assert in_process.append(folder).version == 2
    assert survey.catalog.version == 3


def test_a_compaction(survey: Survey) -> None:
    def compact() -> CompactReport:
        return in_process.compact(in_process.start(survey.warehouse, survey.spec, "compact"))

    assert compact().version == 4
    survey.land(3, night_rows(3, 60))
    run(survey, 3)
    assert compact().version == 6
    survey.assert_holds_what_landed()
    assert compact().version is None
