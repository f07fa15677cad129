"""The vacuum step: versions, their files, and the run folders that nobody needs any more."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.errors import CatalogNotFoundError, SpecError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.report import perform
from hipslake.steps.run import run_uri
from hipslake.steps.upkeep import vacuum_catalog
from hipslake.steps.upkeep.request import VacuumReport, VacuumRequest
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import HEARTBEAT, Heartbeat

from tests.catalog.leftovers import orphans
from tests.steps.in_process import start
from tests.steps.nights import Survey
from tests.system.whole import contents


def clean(warehouse: Path, *, at: datetime | None = None, **options: object) -> VacuumReport:
    request = VacuumRequest.model_validate(
        {
            "run_uri": run_uri(str(warehouse), "catalog_vacuum__stars", "clean"),
            "warehouse": str(warehouse),
            "catalog": "stars",
            "keep_versions": 1,
            "keep_days": 0,
            "dry_run": False,
            "created": at or datetime.now(UTC),
            **options,
        }
    )
    return perform(vacuum_catalog.run, request, VacuumReport)


def runs(warehouse: Path) -> set[str]:
    return {path.relative_to(warehouse / "_runs").as_posix() for path in (warehouse / "_runs").glob("*/*")}


def age(warehouse: Path, run: str, days: float) -> None:
    """Make a run look as if it had begun some days ago."""
    path = warehouse / "_runs" / run / "run.json"
    document = json.loads(path.read_text())
    document["created"] = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    path.write_text(json.dumps(document))


def test_what_is_not_kept_goes_and_the_report_says_what(root: Path, warehouse: Path) -> None:
    old = Catalog.open(root, version=1).metadata.write_id
    before = {name: data for name, data in contents(root).items() if name.startswith(old)}
    report = clean(warehouse)
    assert (report.kept, report.vacuumed, report.dry_run) == ((2,), (1,), False)
    assert [(each.path, each.whole, each.files) for each in report.removed] == [(old, True, len(before))]
    assert (report.files, report.bytes) == (len(before), sum(map(len, before.values())))
    assert "Vacuumed versions: 1. Kept: 2." in report.text
    assert orphans(root) == set()
    Catalog.open(root).verify().raise_if_failed()


def test_a_dry_run_touches_nothing(root: Path, warehouse: Path) -> None:
    (root / "metadata.json").unlink()  # not even the pointers
    before = contents(root)
    report = clean(warehouse, dry_run=True)
    assert contents(root) == before
    assert "Would vacuum versions: 1. Kept: 2." in report.text
    assert report.files > 0


def test_nothing_to_do_is_fine(root: Path, warehouse: Path) -> None:
    clean(warehouse)
    report = clean(warehouse)
    assert (report.vacuumed, report.files, report.removed) == ((), 0, ())
    assert "Vacuumed versions: none. Kept: 2." in report.text


def test_nonsense_and_missing_catalogs_are_refused(root: Path, warehouse: Path) -> None:
    with pytest.raises(SpecError, match="keep_versions"):
        clean(warehouse, keep_versions=0)
    with pytest.raises(CatalogNotFoundError, match="nothing"):
        clean(warehouse, catalog="planets")
    assert Catalog.open(root).versions() == [1, 2]


def test_folders_of_old_runs_go(root: Path, warehouse: Path) -> None:
    age(warehouse, "catalog_ingest__stars/first", days=9)
    age(warehouse, "catalog_ingest__stars/second", days=5)
    told = clean(warehouse, keep_days=7, dry_run=True)
    assert told.run_folders == ("_runs/catalog_ingest__stars/first",)
    assert "catalog_ingest__stars/first" in runs(warehouse)
    assert clean(warehouse, keep_days=7).run_folders == told.run_folders
    assert runs(warehouse) == {"catalog_ingest__stars/second", "catalog_vacuum__stars/clean"}


def test_runs_that_may_wait_for_their_next_step_stay_even_if_no_day_is_kept(
    root: Path, warehouse: Path
) -> None:
    age(warehouse, "catalog_ingest__stars/first", days=0.9)
    age(warehouse, "catalog_ingest__stars/second", days=1.1)
    assert clean(warehouse).run_folders == ("_runs/catalog_ingest__stars/second",)


def test_runs_that_may_still_wait_for_their_files_stay(root: Path, warehouse: Path, spec_file: Path) -> None:
    start(warehouse, spec_file, "waits", wait_minutes=3 * 24 * 60.0)
    age(warehouse, "catalog_ingest__stars/waits", days=3.9)
    assert clean(warehouse).run_folders == ()
    age(warehouse, "catalog_ingest__stars/waits", days=4.1)
    assert clean(warehouse).run_folders == ("_runs/catalog_ingest__stars/waits",)


def test_folders_of_runs_whose_write_lives_stay(root: Path, warehouse: Path, spec_file: Path) -> None:
    folder = start(warehouse, spec_file, "waits")
    with Heartbeat(Storage.at(root), FrozenRun.of(folder).write_id):
        pass  # a step that writes ends, and the folder waits for the next one
    age(warehouse, "catalog_ingest__stars/waits", days=30)
    assert clean(warehouse).run_folders == ()
    (root / FrozenRun.of(folder).write_id / HEARTBEAT).unlink()
    assert clean(warehouse).run_folders == ("_runs/catalog_ingest__stars/waits",)


@pytest.mark.parametrize("step", ["append", "compact"])
def test_folders_of_runs_whose_attempt_lives_stay(tmp_path: Path, step: str) -> None:
    survey = Survey(tmp_path, more="append: add_file")
    survey.night(0)
    if step == "compact":
        survey.night(1)
        survey.compact()
    warehouse, run = tmp_path / "warehouse", f"catalog_ingest__stars/run-{survey.runs}"
    age(warehouse, run, days=30)
    [attempt] = (warehouse / "_runs" / run / step / "attempts").iterdir()
    beat = survey.root / attempt.name / HEARTBEAT
    beat.write_text(json.dumps({"state": "beating", "time": datetime.now(UTC).timestamp()}))
    assert clean(warehouse).run_folders == ()
    beat.unlink()
    assert clean(warehouse).run_folders == (f"_runs/{run}",)


def test_folders_of_compactions_whose_attempt_lives_stay(tmp_path: Path) -> None:
    survey = Survey(tmp_path, more="append: add_file")
    survey.night(0, rows=60)
    survey.night(1, rows=60)
    survey.compact()
    warehouse = tmp_path / "warehouse"
    age(warehouse, "catalog_ingest__stars/run-3", days=30)
    [attempt] = (warehouse / "_runs/catalog_ingest__stars/run-3/compact/attempts").iterdir()
    beat = survey.root / attempt.name / HEARTBEAT
    beat.write_text(json.dumps({"state": "beating", "time": datetime.now(UTC).timestamp()}))
    assert clean(warehouse).run_folders == ()
    beat.unlink()
    assert clean(warehouse).run_folders == ("_runs/catalog_ingest__stars/run-3",)


def test_folders_of_earlier_vacuums_go_too(root: Path, warehouse: Path) -> None:
    clean(warehouse, at=datetime.now(UTC) - timedelta(days=30))
    later = run_uri(str(warehouse), "catalog_vacuum__stars", "later")
    assert clean(warehouse, run_uri=later).run_folders == ("_runs/catalog_vacuum__stars/clean",)


def test_folders_of_other_catalogs_and_of_nobody_known_stay(root: Path, warehouse: Path) -> None:
    for name, text in {
        "other/run": '{"catalog": "planets", "created": "2020-01-01T00:00:00Z"}',
        "damaged/run": "{",
        "undated/run": '{"catalog": "stars", "created": "yesterday"}',
        "zoneless/run": '{"catalog": "stars", "created": "2020-01-01T00:00:00"}',
        "list/run": "[]",
    }.items():
        (warehouse / "_runs" / name).mkdir(parents=True)
        (warehouse / "_runs" / name / "run.json").write_text(text)
    (warehouse / "_runs" / "empty" / "run").mkdir(parents=True)
    assert clean(warehouse).run_folders == ()
