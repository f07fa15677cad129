"""Vacuum: what nobody needs goes, and nothing that a version names."""

from __future__ import annotations

import json
import os
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.catalog.change import changed_group
from hipslake.catalog.describe import describe_group
from hipslake.catalog.upkeep.catalog_vacuum import vacuum_catalog
from hipslake.errors import CatalogFormatError, CatalogNotFoundError, SpecError, VersionNotFoundError
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import claim_write
from hipslake.versions.log import VersionLog

from tests.catalog.leftovers import orphans
from tests.catalog.vacuuming import assert_whole, copied, show, vacuum
from tests.steps.nights import Survey
from tests.system.whole import contents

pytestmark = pytest.mark.sampled(2)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NIGHTS = 5


@pytest.fixture(scope="module", params=["inline", "sidecars", "hipscat"])
def shown_nights(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Five nights, a version each, every one shown to HATS readers."""
    survey = Survey(
        tmp_path_factory.mktemp("nights"),
        threshold="60 rows",
        layout="hipscat" if request.param == "hipscat" else "hats",
    )
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "sidecars":
            for function in (describe_group, changed_group):
                patch.setitem(function.__kwdefaults__, "max_inline", 3)
        for number in range(NIGHTS):
            survey.night(number, rows=200)
            show(survey)
    return survey


@pytest.fixture
def survey(shown_nights: Survey, tmp_path: Path) -> Survey:
    return copied(shown_nights, tmp_path)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("keep", [1, 2, 4, 5, 99])
def test_the_newest_versions_stay_whole_and_nothing_else_does(survey: Survey, keep: int) -> None:
    readers = [Catalog.open(survey.root, version=number) for number in range(1, NIGHTS + 1)]
    before = [reader.read() for reader in readers]
    kept = list(range(max(1, NIGHTS + 1 - keep), NIGHTS + 1))
    outcome = vacuum(survey, keep)
    assert list(outcome.kept) == survey.catalog.versions() == kept
    assert list(outcome.vacuumed) == [number for number in range(1, NIGHTS + 1) if number not in kept]
    assert orphans(survey.root) == set()
    assert_whole(survey)
    for number in kept:
        assert readers[number - 1].read().equals(before[number - 1])
    for number in outcome.vacuumed:
        with pytest.raises(VersionNotFoundError, match=f"version {number} was vacuumed"):
            Catalog.open(survey.root, version=number)
    assert vacuum(survey, keep).files == 0


def test_a_dry_run_changes_nothing_and_says_what_a_real_one_does(survey: Survey) -> None:
    dead = Storage.at(survey.root)
    dead.write("20260101T0000-dead/main/leaf.parquet", b"half")
    dead.write("_versions/pins/20260101T0000-dead.json", b'{"versions": [1]}')
    for tree in ("20260101T0000-dead", survey.catalog.metadata.write_id):
        path = survey.root / tree / "main" / ".x.parquet.0123abcd.tmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"temporary")
        set_back(path)
    before = contents(survey.root)
    told = vacuum(survey, 2, dry_run=True)
    assert contents(survey.root) == before
    done = vacuum(survey, 2)
    assert told.model_copy(update={"dry_run": False}) == done
    after = contents(survey.root)
    gone = {name: data for name, data in before.items() if name not in after and "_versions" not in name}
    assert done.files == len(gone) > 10
    assert done.bytes == sum(map(len, gone.values()))
    assert {each.path for each in done.removed if each.whole} == {
        each.path for each in done.removed if not (survey.root / each.path).exists()
    }
    assert orphans(survey.root) == set()
    assert vacuum(survey, 2).removed == ()


def set_back(path: Path, seconds: float = 3600) -> None:
    """Make a file look as if nobody had written to it for a while."""
    os.utime(path, (time.time() - seconds,) * 2)


def test_versions_stay_for_so_many_days_after_they_were_replaced(nights: Survey) -> None:
    log, storage = VersionLog(Storage.at(nights.root)), Storage.at(nights.root)
    for number, day in ((1, 1), (2, 10), (3, 20)):  # version 1 was replaced on day 10, version 2 on day 20
        document = json.loads(log.read(number))
        document["created"] = f"2026-11-{day:02d}T00:00:00Z"
        storage.write(f"_versions/{number:08d}.json", json.dumps(document).encode())

    def vacuumed_on(day: float, keep_days: float, keep_versions: int = 1) -> tuple[int, ...]:
        now = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day - 1)
        retention = Retention(keep_versions=keep_versions, keep_days=keep_days)
        return vacuum_catalog(storage, retention, now=now).vacuumed

    assert vacuumed_on(20, keep_days=11) == ()
    assert vacuumed_on(21, keep_days=11) == (1,)
    assert vacuumed_on(24, keep_days=5) == (1,)
    assert vacuumed_on(25, keep_days=5) == (1, 2)
    assert vacuumed_on(25, keep_days=5, keep_versions=2) == (1,)
    assert vacuumed_on(25, keep_days=5, keep_versions=3) == ()
    assert vacuumed_on(1000, keep_days=0) == (1, 2)


def test_the_version_that_hats_readers_are_shown_stays(nights: Survey) -> None:
    rolled = nights.catalog.rollback(1)
    nights.landed = {0: nights.landed[0]}
    nights.night(7, rows=100)
    nights.night(8, rows=100)  # neither is shown, as with `unchanged: reference`
    outcome = vacuum(nights)
    assert outcome.kept == (rolled.version, 6)
    tree = nights.root / rolled.metadata.write_id / "main"
    assert (tree / "hats.properties").exists()
    assert len(list(tree.rglob("Npix=*.parquet"))) == rolled.metadata.groups[0].leaves
    assert_whole(nights)
    show(nights)
    assert vacuum(nights).kept == (6,)
    assert not tree.exists()
    assert orphans(nights.root) == set()


def test_a_rolled_back_version_lives_on_when_the_one_that_it_restores_is_vacuumed(nights: Survey) -> None:
    nights.catalog.rollback(1)
    nights.landed = {0: nights.landed[0]}
    assert vacuum(nights).vacuumed == (1, 2, 3)
    assert_whole(nights)
    assert orphans(nights.root) == set()


@pytest.mark.parametrize(
    ("versions", "days", "message"),
    [
        (0, 0, "keep_versions: 0"),
        (-3, 0, "keep_versions: -3"),
        (1, -1, "keep_days: -1"),
        (1, 1e9, "keep_days"),
        (1, float("nan"), "keep_days: nan"),
    ],
)
def test_nonsense_is_refused(nights: Survey, versions: int, days: float, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        nights.catalog.vacuum(keep_versions=versions, keep_days=days, dry_run=False)
    assert nights.catalog.versions() == [1, 2, 3]


def test_where_nothing_is_published_nothing_is_vacuumed(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    storage.write("20260101T0000-dead/main/leaf.parquet", b"half")
    with pytest.raises(CatalogNotFoundError, match="no version is published"):
        vacuum_catalog(storage, Retention(), now=NOW, dry_run=False)
    assert storage.exists("20260101T0000-dead/main/leaf.parquet")


@pytest.mark.parametrize("damage", ["a version", "a sidecar", "a pin"])
def test_where_it_is_not_known_what_is_needed_nothing_is_deleted(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in (describe_group, changed_group):
        monkeypatch.setitem(function.__kwdefaults__, "max_inline", 3)
    survey = Survey(tmp_path, threshold="60 rows")
    for number in range(3):
        survey.night(number, rows=200)
    storage = Storage.at(survey.root)
    newest = survey.catalog.metadata
    path = {
        "a version": "_versions/00000002.json",
        # One that names files in the folders of older writes: others are not looked into.
        "a sidecar": next(s.path for s in newest.groups[0].sidecars if {*s.writes} - {newest.write_id}),
        "a pin": f"_versions/pins/{claim_write(storage, datetime.now(UTC))}.json",
    }[damage]
    storage.write(path, b"{ damaged")
    before = contents(survey.root)
    with pytest.raises(CatalogFormatError):
        vacuum(survey)
    after = contents(survey.root)
    assert {name: data for name, data in before.items() if not name.startswith("_versions/0000")} == {
        name: data for name, data in after.items() if not name.startswith("_versions/0000")
    }
    if damage != "a sidecar":  # which is read only after old versions have gone
        assert after == before


def test_object_stores_are_vacuumed_alike(survey: Survey) -> None:
    objects = Storage.at(f"memory://{uuid.uuid4().hex}")
    for name, data in contents(survey.root).items():
        if name not in ("current", "current.txt"):
            objects.write(name, data)
    objects.write("20260101T0000-dead/main/leaf.parquet", b"half")
    retention = Retention(keep_versions=2, keep_days=0)
    told = vacuum_catalog(objects, retention, now=datetime.now(UTC), dry_run=True)
    done = vacuum_catalog(objects, retention, now=datetime.now(UTC), dry_run=False)
    assert told.model_copy(update={"dry_run": False}) == done
    vacuum(survey, 2)
    left = {name for name in contents(survey.root) if name not in ("current", "current.txt")}
    there = {entry.path for entry in objects.list(recursive=True)}
    assert {path for path in there if "/swept/" not in path and "/vacuumed/" not in path} == left


def test_pointers_that_lag_are_mended_first(nights: Survey) -> None:
    show(nights)
    (nights.root / "metadata.json").write_bytes((nights.root / "_versions/00000001.json").read_bytes())
    (nights.root / "current").unlink()
    (nights.root / "current").symlink_to(Catalog.open(nights.root, version=1).metadata.write_id)
    (nights.root / "SHA256SUMS").unlink()
    assert vacuum(nights).kept == (3,)
    assert (nights.root / "current").resolve().name == nights.catalog.metadata.write_id
    assert json.loads((nights.root / "metadata.json").read_text())["version"] == 3
    assert orphans(nights.root) == set()


def test_rejects_of_increments_that_live_on_stay(tmp_path: Path) -> None:
    more = "bad_rows: {policy: quarantine, max_fraction: 1.0}"
    survey = Survey(tmp_path, more=more)
    survey.night(0)
    write_id = survey.catalog.metadata.write_id
    rejects = survey.root / write_id / "_rejects" / "part-0.parquet"
    rejects.parent.mkdir()
    rejects.write_bytes(b"PAR1")
    document = json.loads((survey.root / "_versions/00000001.json").read_text())
    document["increments"][0]["rejects"] = {"rows": 0, "path": f"{write_id}/_rejects"}
    (survey.root / "_versions/00000001.json").write_text(json.dumps(document))
    survey.night(1)
    assert vacuum(survey).vacuumed == (1,)
    assert rejects.exists()
    survey.land(0, survey.landed[0].slice(0, 10))
    survey.append(0)
    vacuum(survey)
    assert not rejects.exists()
    assert orphans(survey.root) == set()
