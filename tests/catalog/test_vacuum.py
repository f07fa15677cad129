"""Vacuum: what nobody needs goes, and nothing that a version names, whatever others do meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.catalog.change import changed_group
from hipslake.catalog.describe import describe_group
from hipslake.catalog.rollback import roll_back
from hipslake.catalog.vacuum import VacuumOutcome, vacuum_catalog
from hipslake.errors import CatalogFormatError, CatalogNotFoundError, SpecError, VersionNotFoundError
from hipslake.specs.catalog import Unchanged
from hipslake.specs.vacuum import Retention
from hipslake.steps.hats_view import show_newest
from hipslake.storage import Storage
from hipslake.versions.heartbeat import HEARTBEAT, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import Pin, pinned_versions

from tests.catalog.leftovers import missing, orphans
from tests.steps.nights import Survey
from tests.system.whole import contents

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


@pytest.fixture(scope="module")
def three_nights(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Three nights, a version each."""
    survey = Survey(tmp_path_factory.mktemp("nights"), threshold="100 rows")
    for number in range(3):
        survey.night(number, rows=200)
    return survey


@pytest.fixture
def survey(shown_nights: Survey, tmp_path: Path) -> Survey:
    return copied(shown_nights, tmp_path)


@pytest.fixture
def little(three_nights: Survey, tmp_path: Path) -> Survey:
    return copied(three_nights, tmp_path)


def copied(survey: Survey, place: Path) -> Survey:
    """A copy of a survey that a test may change."""
    shutil.copytree(survey.place, place, symlinks=True, dirs_exist_ok=True)
    return replace(survey, place=place, landed=dict(survey.landed))


def show(survey: Survey) -> None:
    show_newest(Storage.at(survey.root), Unchanged.LINK)


def vacuum(survey: Survey, keep_versions: int = 1, *, dry_run: bool = False) -> VacuumOutcome:
    return survey.catalog.vacuum(keep_versions=keep_versions, keep_days=0, dry_run=dry_run)


def assert_whole(survey: Survey) -> None:
    """Check that every version that is listed opens and verifies, and that the newest holds what landed."""
    for number in survey.catalog.versions():
        Catalog.open(survey.root, version=number).verify().raise_if_failed()
    assert missing(survey.root) == set()
    survey.assert_holds_what_landed()


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


def test_versions_stay_for_so_many_days_after_they_were_replaced(little: Survey) -> None:
    log, storage = VersionLog(Storage.at(little.root)), Storage.at(little.root)
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


def test_the_version_that_hats_readers_are_shown_stays(little: Survey) -> None:
    rolled = little.catalog.rollback(1)
    little.landed = {0: little.landed[0]}
    little.night(7, rows=100)
    little.night(8, rows=100)  # neither is shown, as with `unchanged: reference`
    outcome = vacuum(little)
    assert outcome.kept == (rolled.version, 6)
    tree = little.root / rolled.metadata.write_id / "main"
    assert (tree / "hats.properties").exists()
    assert len(list(tree.rglob("Npix=*.parquet"))) == rolled.metadata.groups[0].leaves
    assert_whole(little)
    show(little)
    assert vacuum(little).kept == (6,)
    assert not tree.exists()
    assert orphans(little.root) == set()


def test_a_rolled_back_version_lives_on_when_the_one_that_it_restores_is_vacuumed(little: Survey) -> None:
    little.catalog.rollback(1)
    little.landed = {0: little.landed[0]}
    assert vacuum(little).vacuumed == (1, 2, 3)
    assert_whole(little)
    assert orphans(little.root) == set()


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
def test_nonsense_is_refused(little: Survey, versions: int, days: float, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        little.catalog.vacuum(keep_versions=versions, keep_days=days, dry_run=False)
    assert little.catalog.versions() == [1, 2, 3]


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


def test_live_writes_are_not_touched(little: Survey) -> None:
    storage = Storage.at(little.root)
    write_id = claim_write(storage, datetime.now(UTC))
    storage.write(f"{write_id}/main/leaf.parquet", b"being made")
    outcome = vacuum(little)
    assert write_id not in {each.path for each in outcome.removed}
    assert storage.exists(f"{write_id}/main/leaf.parquet")
    assert storage.exists(f"{write_id}/{HEARTBEAT}")


def test_pinned_versions_stay(little: Survey) -> None:
    storage = Storage.at(little.root)
    reader = Catalog.open(little.root, version=1)
    before = reader.read()
    write_id = claim_write(storage, datetime.now(UTC))
    with Pin(storage, write_id) as pin:
        pin.hold(1)
        assert vacuum(little).kept == (1, 3)
        assert reader.read().equals(before)
    assert vacuum(little).kept == (3,)


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something happen between the choice of the versions that go and the first tombstone."""
    entomb = VersionLog.entomb
    acts = [act]

    def late(log: VersionLog, number: int) -> None:
        if acts:
            acts.pop()()
        entomb(log, number)

    monkeypatch.setattr(VersionLog, "entomb", late)


def test_who_pinned_just_before_the_tombstone_keeps_the_files(
    little: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage.at(little.root)
    reader = Catalog.open(little.root, version=1)
    before = reader.read()
    write_id = claim_write(storage, datetime.now(UTC))
    with Pin(storage, write_id) as pin:
        between(monkeypatch, lambda: pin.hold(1))
        for _ in range(2):  # also by the vacuum that comes after the one that put the tombstone up
            outcome = vacuum(little)
            assert "version 1" in outcome.postponed
            assert reader.read().equals(before)
    storage.delete_tree(write_id)
    done = vacuum(little)
    assert done.postponed == ""
    assert done.files > 0
    assert orphans(little.root) == set()
    assert_whole(little)


def test_a_rollback_that_commits_just_before_the_tombstone_keeps_the_files(
    little: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(monkeypatch, lambda: roll_back(Storage.at(little.root), 1))
    outcome = vacuum(little)
    assert (outcome.vacuumed, outcome.postponed) == ((1, 2), "")
    little.landed = {0: little.landed[0]}
    assert little.catalog.versions() == [3, 4]
    assert_whole(little)


def test_a_rollback_in_midst_of_a_vacuum_wins_or_is_refused(
    little: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds its version, then the vacuum runs whole, then it commits."""
    storage, outcomes = Storage.at(little.root), []
    hold = Pin.hold

    def slow(pin: Pin, number: int) -> bytes:
        found = hold(pin, number)
        VersionLog(storage).entomb(number)  # by a vacuum that chose before it was pinned
        outcomes.append(vacuum(little))
        return found

    monkeypatch.setattr(Pin, "hold", slow)
    roll_back(storage, 1)
    monkeypatch.setattr(Pin, "hold", hold)
    assert outcomes[0].postponed
    little.landed = {0: little.landed[0]}
    assert_whole(little)
    assert vacuum(little).postponed == ""
    assert_whole(little)
    assert orphans(little.root) == set()


def test_a_commit_in_midst_of_a_vacuum_keeps_what_it_names(
    little: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(monkeypatch, lambda: little.night(9, rows=50))
    vacuum(little)
    assert little.catalog.version == 4
    assert_whole(little)


def test_another_vacuum_at_the_same_time_leaves_the_files_to_the_next(
    little: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one puts a tombstone up after this one has looked for pins."""
    looks = []

    def looked(storage: Storage, **options: object) -> set[int]:
        found = pinned_versions(storage, **options)  # type: ignore[arg-type]
        looks.append(found)
        if len(looks) == 2:
            VersionLog(storage).entomb(2)
        return found

    monkeypatch.setattr("hipslake.catalog.vacuum.pinned_versions", looked)
    outcome = vacuum(little, 2)
    assert outcome.vacuumed == (1,)
    assert outcome.postponed == "another vacuum is at work"
    monkeypatch.undo()
    vacuum(little)
    assert_whole(little)
    assert orphans(little.root) == set()


def test_object_stores_are_vacuumed_alike(survey: Survey) -> None:
    objects = Storage.at(f"memory://{uuid.uuid4().hex}")
    for name, data in contents(survey.root).items():
        if name != "current":
            objects.write(name, data)
    objects.write("20260101T0000-dead/main/leaf.parquet", b"half")
    retention = Retention(keep_versions=2, keep_days=0)
    told = vacuum_catalog(objects, retention, now=datetime.now(UTC), dry_run=True)
    done = vacuum_catalog(objects, retention, now=datetime.now(UTC), dry_run=False)
    assert told.model_copy(update={"dry_run": False}) == done
    vacuum(survey, 2)
    left = {name for name in contents(survey.root) if name != "current"}
    assert {entry.path for entry in objects.list(recursive=True) if "/swept/" not in entry.path} == left


def test_pointers_that_lag_are_mended_first(little: Survey) -> None:
    (little.root / "metadata.json").write_bytes((little.root / "_versions/00000001.json").read_bytes())
    (little.root / "current").unlink()
    (little.root / "current").symlink_to(Catalog.open(little.root, version=1).metadata.write_id)
    (little.root / "SHA256SUMS").unlink()
    assert vacuum(little).kept == (3,)
    assert (little.root / "current").resolve().name == little.catalog.metadata.write_id
    assert json.loads((little.root / "metadata.json").read_text())["version"] == 3
    assert orphans(little.root) == set()


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
