"""Pins: put up before the version is read, so that a vacuum and who needs the files see each other."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hipslake.errors import CatalogFormatError, CatalogNotFoundError, VersionNotFoundError
from hipslake.storage.folder import Storage
from hipslake.versions import pins
from hipslake.versions.heartbeat import HEARTBEAT, Heartbeat
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import VERSIONS
from hipslake.versions.orphans import sweep_orphans
from hipslake.versions.pins import ClaimAhead, Pin, pin_path, pinned_versions, pinning, pinning_writes
from hipslake.versions.version_write import writing
from hipslake.versions.write_id import new_write_id

from tests.processes import killed
from tests.versions.committing import committed, metadata, write_id_of

WRITE = "20261121T0400-beef"
OTHER = "20261121T0400-cafe"


def test_versions_are_pinned_while_the_block_runs(storage: Storage) -> None:
    committed(storage, 3)
    with Pin(storage, WRITE) as pin:
        assert pinned_versions(storage) == set()
        assert pin.hold(1) == metadata(1, write_id_of(1))
        assert pin.hold(2) == metadata(2, write_id_of(2))
        with Pin(storage, OTHER) as other:
            other.hold(3)
            assert pinned_versions(storage) == {1, 2, 3}
            assert pinned_versions(storage, without=[WRITE]) == {3}
        assert pinned_versions(storage) == {1, 2}
    assert pinning_writes(storage) == []


def test_the_pin_stands_before_the_version_is_read(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(storage, 2)
    seen: list[set[int]] = []
    read = VersionLog.read

    def looking(log: VersionLog, number: int | None = None) -> bytes:
        seen.append(pinned_versions(storage))
        return read(log, number)

    monkeypatch.setattr(VersionLog, "read", looking)
    with Pin(storage, WRITE) as pin:
        pin.hold(1)
    assert seen == [{1}]


def test_a_vacuumed_version_is_not_held_and_leaves_no_pin(storage: Storage) -> None:
    log = committed(storage, 3)
    log.entomb(1)
    with Pin(storage, WRITE) as pin:
        with pytest.raises(VersionNotFoundError, match="version 1 was vacuumed; there are: 2, 3"):
            pin.hold(1)
        assert pinning_writes(storage) == []
        pin.hold(2)
        with pytest.raises(VersionNotFoundError, match="version 9 does not exist"):
            pin.hold(9)
        assert pinned_versions(storage) == {2}


def test_the_newest_is_held_also_when_it_is_overtaken_and_vacuumed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = committed(storage, 1)
    newest = VersionLog.newest

    def overtaken(asked: VersionLog, meanwhile: Callable[[int], object] | None = None) -> int | None:
        """As soon as it is known what the newest is, others commit the next one and vacuum it."""
        found = newest(asked, meanwhile)
        if found == 1:
            log.commit(2, metadata(2, write_id_of(2)), write_id_of(2))
            log.entomb(1)
        return found

    monkeypatch.setattr(VersionLog, "newest", overtaken)
    with Pin(storage, WRITE) as pin:
        assert json.loads(pin.hold_newest())["version"] == 2
        assert pinned_versions(storage) == {2}


def test_of_nothing_there_is_no_newest_version(storage: Storage) -> None:
    with pytest.raises(CatalogNotFoundError, match="nothing is published"), Pin(storage, WRITE) as pin:
        pin.hold_newest()


def test_work_that_commits_nothing_pins_under_a_write_of_its_own(storage: Storage) -> None:
    committed(storage, 1)
    with pinning(storage) as pin:
        pin.hold(1)
        [write_id] = pinning_writes(storage)
        assert storage.exists(f"{write_id}/{HEARTBEAT}")
        assert sweep_orphans(storage) == []
        assert pinned_versions(storage) == {1}
    assert not storage.exists(write_id)
    assert pinning_writes(storage) == []


def test_what_was_claimed_ahead_is_the_write_of_who_takes_it() -> None:
    storage = Storage.at(f"memory://{uuid.uuid4().hex}")
    committed(storage, 2)
    ahead = ClaimAhead(storage, (1, 2))
    while len(pinning_writes(storage)) < 1:
        time.sleep(0.01)
    [write_id] = pinning_writes(storage)
    assert pinned_versions(storage) == {1, 2}
    with pinning(storage, (1, 2), ahead=ahead) as pin:
        assert pin.names((1, 2))
        assert pinning_writes(storage) == [write_id]
        assert sweep_orphans(storage) == []
        assert pin.hold(1) == metadata(1, write_id_of(1))
    assert pinning_writes(storage) == []
    assert not storage.exists(write_id)
    with writing(storage, versions=(2,), ahead=ClaimAhead(storage, (1,))) as write:
        assert write.pin.names((1,))
        assert not write.pin.names((2,))  # who needs it holds it
        write.pin.hold(2)
        assert pinned_versions(storage) == {1, 2}
        assert storage.exists(f"{write.id}/{HEARTBEAT}")


def test_what_was_claimed_long_ago_is_given_up_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeat may be that of a dead run by now."""
    storage = Storage.at(f"memory://{uuid.uuid4().hex}")
    committed(storage, 2)
    ahead = ClaimAhead(storage, (1,))
    monkeypatch.setattr(pins, "INTERVAL", 0.0)
    with pinning(storage, (2,), ahead=ahead):
        assert len(pinning_writes(storage)) == 1
        assert pinned_versions(storage) == {2}
    assert pinning_writes(storage) == []
    untaken = ClaimAhead(storage, (1,))
    untaken.give_up()
    assert [entry.path for entry in storage.list() if entry.is_dir] == [VERSIONS]
    assert pinning_writes(storage) == []


def test_the_pin_of_a_killed_run_goes_with_its_write(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    committed(storage, 2)

    def pin_and_die() -> None:
        with pinning(storage) as pin:
            pin.hold(1)
            os.kill(os.getpid(), signal.SIGKILL)

    killed(pin_and_die)
    [write_id] = pinning_writes(storage)
    assert sweep_orphans(storage) == []
    assert pinned_versions(storage) == {1}
    assert sweep_orphans(storage, live_after=0) == [write_id]
    assert pinning_writes(storage) == []


def test_the_pin_of_a_killed_run_that_had_committed_goes_too(storage: Storage) -> None:
    committed(storage, 2)
    storage.write(f"{write_id_of(2)}/file", b".")
    storage.write(pin_path(write_id_of(2)), b'{"versions": [1]}')
    with pytest.raises(KeyError), Heartbeat(storage, write_id_of(2)):
        raise KeyError
    assert sweep_orphans(storage) == []
    assert pinned_versions(storage) == {1}
    assert sweep_orphans(storage, live_after=0) == []
    assert pinning_writes(storage) == []
    assert storage.exists(f"{write_id_of(2)}/file")


def test_while_a_vacuumed_version_is_pinned_the_sweep_leaves_what_such_versions_wrote(
    storage: Storage,
) -> None:
    log = committed(storage, 3)
    for number in (1, 2, 3):
        storage.write(f"{write_id_of(number)}/file", b".")
    dead = "20260101T0000-dead"
    storage.write(f"{dead}/file", b".")
    with pinning(storage) as pin:
        pin.hold(2)
        log.entomb(1)
        log.entomb(2)
        assert sweep_orphans(storage, dry_run=True, live_after=60) == [dead]
        assert sweep_orphans(storage, live_after=60) == [dead]
        assert storage.exists(f"{write_id_of(1)}/file")  # version 2 may need files of version 1's write
    going = [write_id_of(1), write_id_of(2)]
    assert sweep_orphans(storage, dry_run=True) == going
    assert sweep_orphans(storage) == going
    assert storage.exists(f"{write_id_of(3)}/file")


def test_a_dead_pin_on_a_vacuumed_version_holds_nothing_back(storage: Storage) -> None:
    log = committed(storage, 2)
    storage.write(f"{write_id_of(1)}/file", b".")
    log.entomb(1)
    storage.write(pin_path("20260101T0000-dead"), b'{"versions": [1]}')
    going = ["20260101T0000-dead", write_id_of(1)]
    assert sweep_orphans(storage, dry_run=True) == going
    assert sweep_orphans(storage) == going


def test_a_pin_that_comes_before_its_heartbeat_is_left_in_peace_as_long_as_its_write_is_new(
    storage: Storage,
) -> None:
    now = datetime.now(UTC)
    drawn, old = new_write_id(now), new_write_id(now - timedelta(seconds=3600))
    committed(storage, 1)
    for each in (drawn, old):
        storage.write(pin_path(each), b'{"versions": [1]}')
    young = [] if storage.is_local else [drawn]  # there the heartbeat comes first
    assert sweep_orphans(storage) == sorted({drawn, old}.difference(young))
    assert pinning_writes(storage) == young
    assert sweep_orphans(storage, live_after=0) == young


def test_a_write_may_begin_with_its_pin(storage: Storage) -> None:
    committed(storage, 2)
    found = VersionLog(storage).read_newest()
    assert found is not None
    with writing(storage, versions=(1, 2)) as write:
        assert write.pin.names((1, 2)) is not storage.is_local
        assert write.pin.hold_newest(found) == found.data
        assert pinned_versions(storage) >= {2}
        assert sweep_orphans(storage) == []
    assert pinned_versions(storage) == set()


def test_a_known_version_that_is_not_the_newest_any_more_is_not_held(storage: Storage) -> None:
    log = committed(storage, 1)
    found = log.read_newest()
    assert found is not None
    committed(storage, 2)
    log.entomb(1)
    with writing(storage, versions=(1,)) as write:
        assert write.pin.hold_newest(found) == log.read(2)
        assert pinned_versions(storage) == {2}


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"versions": 3}', b'{"versions": ["x"]}'])
def test_a_damaged_pin_is_an_error_since_nobody_knows_what_it_holds(storage: Storage, content: bytes) -> None:
    storage.write(pin_path(WRITE), content)
    with pytest.raises(CatalogFormatError, match=f"{WRITE}.json: not a pin"):
        pinned_versions(storage)


def test_foreign_files_are_no_pins(storage: Storage) -> None:
    storage.write("_versions/pins/readme.txt", b"!")
    assert pinning_writes(storage) == []
    assert pinned_versions(storage) == set()
