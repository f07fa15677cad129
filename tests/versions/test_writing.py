"""A write that fails leaves nothing, unless its commit may stand; and what stands keeps its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hipslake.errors import (
    CommitStateUnknownError,
    ConflictError,
    NotWritableError,
    StorageError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import HEARTBEAT
from hipslake.versions.log import VersionLog
from hipslake.versions.orphans import sweep_orphans
from hipslake.versions.pins import give_up, pinned_versions, pinning, pinning_writes
from hipslake.versions.version_write import writing

from tests.catalog.leftovers import orphans
from tests.versions.committing import committed, metadata

WRITE = "20261122T0330-7f3a7f3a7f3a"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = Storage.at(tmp_path)
    committed(storage, 1)
    return storage


def write_and_fail(storage: Storage, error: BaseException, *, asked: bool) -> str:
    """Write a file beside a pinned version, and fail before the commit, or in its answer."""

    def work() -> None:
        with writing(storage) as write:
            drawn.append(write.id)
            storage.write(f"{write.id}/main/leaf.parquet", b"half")
            write.pin.hold(1)
            if asked:
                write.heartbeat.confirm()
            raise error

    drawn: list[str] = []
    with pytest.raises(type(error)):
        work()
    return drawn[0]


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (VerificationError("rows are missing"), False),
        (VersionNotFoundError("vacuumed"), False),
        (KeyError(), False),
        (KeyboardInterrupt(), False),
        (ConflictError("others were first"), True),
        (StorageError("the commit does not stand"), True),
    ],
)
def test_a_write_that_fails_leaves_nothing(
    storage: Storage, tmp_path: Path, error: BaseException, asked: bool
) -> None:
    write_id = write_and_fail(storage, error, asked=asked)
    assert not (tmp_path / write_id).exists()
    assert pinning_writes(storage) == []


@pytest.mark.parametrize("error", [CommitStateUnknownError("no answer"), KeyError(), KeyboardInterrupt()])
def test_while_its_commit_may_stand_all_of_it_stays_until_the_sweep_of_dead_writes(
    storage: Storage, error: BaseException
) -> None:
    write_id = write_and_fail(storage, error, asked=True)
    assert storage.exists(f"{write_id}/main/leaf.parquet")
    assert pinned_versions(storage) == {1}
    assert sweep_orphans(storage) == []
    assert sweep_orphans(storage, live_after=0) == [write_id]
    assert pinning_writes(storage) == []


def test_a_commit_that_stands_keeps_its_files_if_its_pin_cannot_be_removed(tmp_path: Path) -> None:
    class Refusing(Storage):
        """A store that lets nobody delete a pin."""

        def delete(self, path: str) -> None:
            if "/pins/" in path:
                raise NotWritableError(path)
            super().delete(path)

    def work() -> None:
        with writing(storage) as write:
            storage.write(f"{write.id}/main/leaf.parquet", b"whole")
            write.pin.hold(1)
            write.heartbeat.confirm()
            assert log.commit(2, metadata(2, write.id), write.id) == "committed"

    storage = Refusing(str(tmp_path))
    log = committed(storage, 1)
    with pytest.raises(NotWritableError):
        work()
    write_id = json.loads(log.read(2))["write_id"]
    assert storage.read(f"{write_id}/main/leaf.parquet") == b"whole"


def test_an_attempt_that_fails_leaves_what_another_at_the_same_write_has_committed(storage: Storage) -> None:
    def work() -> None:
        with writing(storage, WRITE) as write:
            log.commit(2, metadata(2, write.id), write.id)  # the other, which was taken for dead
            raise VersionNotFoundError("vacuumed")

    log = VersionLog(storage)
    storage.write(f"{WRITE}/main/view", b"whole")
    with pytest.raises(VersionNotFoundError):
        work()
    assert storage.read(f"{WRITE}/main/view") == b"whole"


def test_an_attempt_that_fails_leaves_nothing_of_a_write_that_was_given(storage: Storage) -> None:
    def work() -> None:
        with writing(storage, WRITE) as write:
            storage.write(f"{write.id}/main/view", b"half")
            raise VersionNotFoundError("vacuumed")

    with pytest.raises(VersionNotFoundError):
        work()
    assert not storage.exists(WRITE)


def test_a_write_that_ends_well_loses_heartbeat_and_pin_and_can_be_given_up(
    storage: Storage, tmp_path: Path
) -> None:
    with writing(storage) as write:
        storage.write(f"{write.id}/main/leaf.parquet", b"whole")
        write.pin.hold(1)
    assert not storage.exists(f"{write.id}/{HEARTBEAT}")
    assert pinning_writes(storage) == []
    assert storage.exists(f"{write.id}/main/leaf.parquet")
    give_up(storage, write.id)
    assert not (tmp_path / write.id).exists()


@pytest.mark.parametrize("error", [KeyError(), KeyboardInterrupt(), StorageError("disk full")])
def test_work_that_commits_nothing_leaves_nothing_however_it_ends(
    storage: Storage, tmp_path: Path, error: BaseException
) -> None:

    def work() -> None:
        with pinning(storage) as pin:
            pin.hold(1)
            raise error

    with pytest.raises(type(error)):
        work()
    assert orphans(tmp_path) == set()
    assert pinning_writes(storage) == []
    assert [path.name for path in tmp_path.iterdir()] == ["_versions"]
