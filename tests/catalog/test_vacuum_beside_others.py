"""Vacuum beside other runs: whatever they do meanwhile, no file goes that a version names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hipslake import Catalog
from hipslake.catalog.upkeep.restored_version import roll_back
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import HEARTBEAT, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import Vacuuming
from hipslake.versions.pins import Pin, pinned_versions

from tests.catalog.leftovers import orphans
from tests.catalog.vacuuming import assert_whole, vacuum
from tests.steps.nights import Survey


def test_live_writes_are_not_touched(nights: Survey) -> None:
    storage = Storage.at(nights.root)
    write_id = claim_write(storage, datetime.now(UTC))
    storage.write(f"{write_id}/main/leaf.parquet", b"being made")
    outcome = vacuum(nights)
    assert write_id not in {each.path for each in outcome.removed}
    assert storage.exists(f"{write_id}/main/leaf.parquet")
    assert storage.exists(f"{write_id}/{HEARTBEAT}")


def test_pinned_versions_stay(nights: Survey) -> None:
    storage = Storage.at(nights.root)
    reader = Catalog.open(nights.root, version=1)
    before = reader.read()
    write_id = claim_write(storage, datetime.now(UTC))
    with Pin(storage, write_id) as pin:
        pin.hold(1)
        assert vacuum(nights).kept == (1, 3)
        assert reader.read().equals(before)
    assert vacuum(nights).kept == (3,)


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something happen between the choice of the versions that go and the first tombstone."""
    entomb = VersionLog.entomb
    acts = [act]

    def late(log: VersionLog, number: int, *how: Vacuuming) -> None:
        if acts:
            acts.pop()()
        entomb(log, number, *how)

    monkeypatch.setattr(VersionLog, "entomb", late)


def test_who_pinned_just_before_the_tombstone_keeps_the_files(
    nights: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage.at(nights.root)
    reader = Catalog.open(nights.root, version=1)
    before = reader.read()
    write_id = claim_write(storage, datetime.now(UTC))
    with Pin(storage, write_id) as pin:
        between(monkeypatch, lambda: pin.hold(1))
        for _ in range(2):  # also by the vacuum that comes after the one that put the tombstone up
            outcome = vacuum(nights)
            assert "version 1" in outcome.postponed
            assert reader.read().equals(before)
    storage.delete_tree(write_id)
    done = vacuum(nights)
    assert done.postponed == ""
    assert done.files > 0
    assert orphans(nights.root) == set()
    assert_whole(nights)


def test_a_rollback_that_commits_just_before_the_tombstone_keeps_the_files(
    nights: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(monkeypatch, lambda: roll_back(Storage.at(nights.root), 1))
    outcome = vacuum(nights)
    point_at_newest(Storage.at(nights.root))  # as whoever rolls back does next
    assert (outcome.vacuumed, outcome.postponed) == ((1, 2), "")
    nights.landed = {0: nights.landed[0]}
    assert nights.catalog.versions() == [3, 4]
    assert_whole(nights)


def test_a_rollback_in_midst_of_a_vacuum_wins_or_is_refused(
    nights: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds its version, then the vacuum runs whole, then it commits."""
    storage, outcomes = Storage.at(nights.root), []
    hold = Pin.hold

    def slow(pin: Pin, number: int) -> bytes:
        found = hold(pin, number)
        VersionLog(storage).entomb(number)  # by a vacuum that chose before it was pinned
        outcomes.append(vacuum(nights))
        return found

    monkeypatch.setattr(Pin, "hold", slow)
    roll_back(storage, 1)
    point_at_newest(storage)
    monkeypatch.setattr(Pin, "hold", hold)
    assert outcomes[0].postponed
    nights.landed = {0: nights.landed[0]}
    assert_whole(nights)
    assert vacuum(nights).postponed == ""
    assert_whole(nights)
    assert orphans(nights.root) == set()


def test_a_commit_in_midst_of_a_vacuum_keeps_what_it_names(
    nights: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(monkeypatch, lambda: nights.night(9, rows=50))
    vacuum(nights)
    assert nights.catalog.version == 4
    assert_whole(nights)


def test_another_vacuum_at_the_same_time_leaves_the_files_to_the_next(
    nights: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one puts a tombstone up after this one has looked for pins."""
    looks = []

    def looked(storage: Storage, **options: object) -> set[int]:
        found = pinned_versions(storage, **options)  # type: ignore[arg-type]
        looks.append(found)
        if len(looks) == 2:
            VersionLog(storage).entomb(2)
        return found

    monkeypatch.setattr("hipslake.catalog.upkeep.catalog_vacuum.pinned_versions", looked)
    outcome = vacuum(nights, 2)
    assert outcome.vacuumed == (1,)
    assert outcome.postponed == "another vacuum is at work"
    monkeypatch.undo()
    vacuum(nights)
    assert_whole(nights)
    assert orphans(nights.root) == set()
