"""The rollback step: one commit however often it is tried, then the view; errors leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.errors import SpecError, VersionNotFoundError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep import rollback_catalog
from hipslake.steps.upkeep.request import RollbackReport, RollbackRequest
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import HEARTBEAT

from tests.steps.in_process import freeze, show, start, write_spec
from tests.steps.nights import Survey


def roll_back(folder: RunFolder, version: int) -> RollbackReport:
    request = RollbackRequest(run_uri=folder.uri, version=version)
    return perform(rollback_catalog.run, request, RollbackReport)


def test_the_run_commits_as_the_write_that_it_drew_and_is_shown(
    root: Path, warehouse: Path, spec_file: Path
) -> None:
    folder = start(warehouse, spec_file, "back")
    report = roll_back(folder, 1)
    assert (report.version, report.parent, report.restored) == (3, 2, 1)
    assert (report.rows_in, report.rows_out, report.catalog_uri) == (3000, 3000, str(root))
    catalog = Catalog.open(root)
    assert catalog.metadata.write_id == FrozenRun.of(folder).write_id
    assert show(folder).version == 3
    assert FrozenRun.of(folder).write_id in (root / "collection.properties").read_text()
    catalog.verify().raise_if_failed()


def test_a_retry_finds_the_commit_of_the_attempt_before(root: Path, warehouse: Path, spec_file: Path) -> None:
    folder = start(warehouse, spec_file, "back")
    first = roll_back(folder, 1)
    folder.storage.delete(RunFolder.report_path("rollback"))  # killed between the commit and the report
    for name in ("metadata.json", "current"):
        (root / name).unlink()
    again = roll_back(folder, 1)
    assert not again.reused
    assert (again.version, again.parent, again.restored) == (first.version, first.parent, first.restored)
    assert Catalog.open(root).versions() == [1, 2, 3]
    assert (root / "metadata.json").exists()
    assert roll_back(folder, 1).reused


@pytest.mark.parametrize(("version", "error"), [(2, SpecError), (7, VersionNotFoundError)])
def test_what_cannot_be_brought_back_leaves_no_folder_that_waits(
    root: Path, warehouse: Path, spec_file: Path, version: int, error: type[Exception]
) -> None:
    folder = start(warehouse, spec_file, "back")
    with pytest.raises(error, match=f"version {version}"):
        roll_back(folder, version)
    assert Catalog.open(root).versions() == [1, 2]
    assert not Storage.at(root).exists(f"{FrozenRun.of(folder).write_id}/{HEARTBEAT}")


def test_the_content_that_is_back_is_what_the_next_run_compares_with(
    root: Path, warehouse: Path, spec_file: Path, tmp_path: Path
) -> None:
    roll_back(start(warehouse, spec_file, "back"), 1)
    assert freeze(start(warehouse, spec_file, "third")).unchanged_version is None
    write_spec(spec_file, f"{tmp_path}/landing/*.parquet", threshold="400 rows")
    assert freeze(start(warehouse, spec_file, "fourth")).unchanged_version == 3


def test_all_files_of_leaves_that_gather_them_are_counted(tmp_path: Path) -> None:
    survey = Survey(tmp_path, more="append: add_file")
    for number in range(3):
        survey.night(number, rows=60)
    report = roll_back(survey.begin(), 2)
    [group] = survey.catalog.metadata.groups
    assert report.files == group.files > group.leaves
