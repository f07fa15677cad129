"""The sweep: what dead runs left goes, and nothing that lives or that any version names."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import StorageError
from hipslake.storage.folder import Storage
from hipslake.versions import orphans
from hipslake.versions.heartbeat import HEARTBEAT, Heartbeat, is_marked, mark_path
from hipslake.versions.intents import INTENTS, announce
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import version_path
from hipslake.versions.orphans import delete_temporary_files, sweep_orphans
from hipslake.versions.version_write import writing
from hipslake.versions.write_id import write_ids_in

from tests.processes import killed
from tests.versions.aging import set_back

DEAD = "20260101T0000-dead"
OTHER = "20260102T0000-beef"


def write(storage: Storage, write_id: str, state: str | None = None, age: float = 0.0) -> None:
    """A write folder with a file, and a heartbeat if a state is given."""
    storage.write(f"{write_id}/main/dataset/Norder=0/Dir=0/Npix=1.parquet", b"PAR1")
    if state:
        heartbeat = {"state": state, "time": time.time()}
        storage.write(f"{write_id}/{HEARTBEAT}", json.dumps(heartbeat).encode())
        if age:
            set_back(storage, f"{write_id}/{HEARTBEAT}", age)


def commit(storage: Storage, number: int, write_id: str, *partitions: str) -> None:
    data = json.dumps({"version": number, "write_id": write_id, "partitions": partitions}).encode()
    assert VersionLog(storage).commit(number, data, write_id) == "committed"


def test_dead_writes_that_no_version_names_are_deleted(storage: Storage) -> None:
    write(storage, DEAD, "beating", age=301)
    write(storage, OTHER)  # never beat, and drawn long ago

    assert sweep_orphans(storage) == [DEAD, OTHER]
    assert not storage.exists(DEAD)
    assert not storage.exists(OTHER)
    assert sweep_orphans(storage) == []


def test_living_and_resting_writes_are_kept(storage: Storage) -> None:
    write(storage, DEAD, "beating", age=200)
    write(storage, OTHER, "resting", age=80_000)
    assert sweep_orphans(storage) == []
    assert sweep_orphans(storage, live_after=100) == [DEAD]


def test_a_write_that_is_about_to_beat_for_the_first_time_is_kept(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    (tmp_path / DEAD).mkdir()

    assert sweep_orphans(storage) == []
    with Heartbeat(storage, DEAD) as beating:
        beating.confirm()
    (tmp_path / OTHER).mkdir()
    set_back(storage, OTHER, 301)
    assert sweep_orphans(storage) == [OTHER]


def test_a_write_that_beats_for_the_first_time_while_it_is_looked_at_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage.at(tmp_path)
    (tmp_path / DEAD).mkdir()
    look = orphans.pulse

    def just_before(*asked: Any) -> bool | None:
        found = look(*asked)
        storage.create(f"{DEAD}/{HEARTBEAT}", b'{"state": "beating", "time": %f}' % time.time())
        return found

    monkeypatch.setattr(orphans, "pulse", just_before)
    assert sweep_orphans(storage) == []
    assert not is_marked(storage, DEAD)


@pytest.mark.parametrize("ahead", [-400, 400, 86_400 * 400])
def test_a_sweeper_with_a_wrong_clock_leaves_who_lives_and_takes_who_is_dead(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    write(storage, OTHER, "beating")
    now = time.time
    monkeypatch.setattr("time.time", lambda: now() + ahead)

    assert sweep_orphans(storage) == []
    write(storage, DEAD)
    assert sweep_orphans(storage) == [DEAD]


def test_a_dead_write_whose_commit_may_be_under_way_is_left_until_its_number_is_taken(
    storage: Storage,
) -> None:
    commit(storage, 1, "20260101T0000-0001")
    write(storage, DEAD)
    write(storage, OTHER)
    announce(storage, DEAD, 2)

    assert sweep_orphans(storage, dry_run=True) == sweep_orphans(storage) == [OTHER]
    commit(storage, 2, "20260101T0000-0002")
    assert sweep_orphans(storage, dry_run=True) == sweep_orphans(storage) == [DEAD]
    assert storage.list(INTENTS) == []


def test_a_commit_that_lands_after_any_time_keeps_its_files(storage: Storage) -> None:
    class Away(Storage):
        """The network is away before the commit takes effect, and a sweep runs meanwhile."""

        def create(self, path: str, data: bytes) -> bool:
            if path == version_path(1):
                assert sweep_orphans(storage, live_after=0) == []
            return super().create(path, data)

    away = Away(storage.root)
    with writing(away) as made:
        write(away, made.id)
        data = json.dumps({"version": 1, "write_id": made.id}).encode()
        assert VersionLog(away).commit(1, data, made.id) == "committed"
    assert sweep_orphans(storage, live_after=0) == []
    assert storage.exists(f"{made.id}/main")


def test_writes_that_any_version_names_are_kept(storage: Storage) -> None:
    old, named_by_path, newest = "20260101T0000-0001", "20260101T0000-0002", "20260101T0000-0003"
    for write_id in (old, named_by_path, newest, DEAD):
        write(storage, write_id)
    commit(storage, 1, old)
    commit(storage, 2, newest, f"{named_by_path}/main/dataset/Norder=0/Dir=0/Npix=1.parquet")

    assert sweep_orphans(storage) == [DEAD]
    assert sweep_orphans(storage, live_after=0) == []

    VersionLog(storage).entomb(1)
    assert sweep_orphans(storage) == [old]


def test_a_tree_that_only_a_pointer_names_is_kept(storage: Storage) -> None:
    write(storage, DEAD)
    storage.write("collection.properties", f"hats_primary_table_url={DEAD}/main\n".encode())
    assert sweep_orphans(storage) == []

    storage.write("collection.properties", b"")
    if storage.is_local:
        storage.symlink("current", DEAD)
        assert sweep_orphans(storage) == []
        storage.delete("current")
    assert sweep_orphans(storage) == [DEAD]


def test_writes_that_only_a_sidecar_names_are_told_by_the_caller(storage: Storage) -> None:
    write(storage, DEAD)
    commit(storage, 1, OTHER)

    assert sweep_orphans(storage, named=lambda data: [DEAD]) == []


def test_the_writes_of_the_sweeping_run_are_kept(storage: Storage) -> None:
    write(storage, DEAD)
    assert sweep_orphans(storage, keep=[DEAD]) == []


def test_folders_that_are_no_writes_are_left_alone(storage: Storage) -> None:
    for path in ("notes/a", "_versions_old/b", f"{DEAD}.bak/c"):
        storage.write(path, b".")

    assert sweep_orphans(storage, live_after=0) == []


def test_a_folder_that_is_called_almost_like_a_write_is_left_alone(storage: Storage) -> None:
    storage.write("20209999T9999-abcd/a.parquet", b"of another")

    assert sweep_orphans(storage, 0) == []
    assert storage.read("20209999T9999-abcd/a.parquet") == b"of another"


def test_a_swept_write_cannot_be_taken_up_again(storage: Storage) -> None:
    write(storage, DEAD)
    sweep_orphans(storage)

    with pytest.raises(StorageError, match="was swept"), Heartbeat(storage, DEAD):
        pass
    assert sweep_orphans(storage, live_after=0) == [DEAD]


def test_a_write_that_was_committed_while_the_sweeper_looked_is_kept(storage: Storage) -> None:
    write(storage, DEAD)
    commit(storage, 1, OTHER)
    looks = []

    def named(data: bytes) -> set[str]:
        """After the sweeper's first look, the writer that seemed dead commits."""
        looks.append(data)
        if len(looks) == 1:
            commit(storage, 2, DEAD)
        return write_ids_in(data)

    assert sweep_orphans(storage, named=named) == []
    assert storage.exists(DEAD)


def test_a_mark_is_never_forgotten(storage: Storage) -> None:
    """A writer may come back after any time."""
    storage.write(mark_path(DEAD), json.dumps({"time": 0}).encode())
    sweep_orphans(storage)

    data = json.dumps({"version": 1, "write_id": DEAD}).encode()
    with pytest.raises(StorageError, match="was swept"):
        VersionLog(storage).commit(1, data, DEAD)
    assert VersionLog(storage).newest() is None
    assert storage.list(INTENTS) == []


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)

    def write_and_die() -> None:
        with Heartbeat(storage, DEAD):
            storage.write(f"{DEAD}/main/whole.parquet", b"PAR1")
            with storage.open(f"{DEAD}/main/half.parquet", "wb") as file:
                file.write(b"PA")
                os.kill(os.getpid(), signal.SIGKILL)

    killed(write_and_die)

    assert sweep_orphans(storage) == []
    assert sweep_orphans(storage, live_after=0) == [DEAD]
    assert not (tmp_path / DEAD).exists()


def test_temporary_files_of_killed_commits_are_deleted(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    left = [
        ".metadata.json.0123abcd.tmp",
        "_versions/.00000001.json.0123abcd.tmp",
        "_versions/vacuumed/.known.json.0123abcd.tmp",
    ]
    for path in [*left, "_versions/.00000001.json.claim"]:
        storage.write(path, b"{")

    assert sweep_orphans(storage) == []
    assert sweep_orphans(storage, live_after=0) == sorted(left)
    assert storage.exists("_versions/.00000001.json.claim")


def test_links_that_were_not_finished_are_deleted(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    commit(storage, 1, DEAD)
    write(storage, DEAD)
    left = [".current.0123abcd.tmp", ".current.4567cdef.tmp"]
    for name, target in zip(left, [DEAD, "gone"], strict=True):
        (tmp_path / name).symlink_to(target)

    assert sweep_orphans(storage) == []
    assert sweep_orphans(storage, live_after=0) == left
    assert storage.exists(DEAD)
    assert list(tmp_path.glob(".current*")) == []


def test_the_last_heartbeat_of_a_published_write_is_deleted_once_it_is_stale(storage: Storage) -> None:
    write(storage, DEAD, "beating", age=200)
    commit(storage, 1, DEAD)

    assert sweep_orphans(storage) == []
    assert storage.exists(f"{DEAD}/{HEARTBEAT}")
    assert sweep_orphans(storage, live_after=100) == []
    assert not storage.exists(f"{DEAD}/{HEARTBEAT}")
    assert storage.exists(f"{DEAD}/main/dataset/Norder=0/Dir=0/Npix=1.parquet")


def test_temporary_files_below_a_folder_are_deleted(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    storage.write("w/a/.x.parquet.0123abcd.tmp", b".")
    storage.write("w/a/x.parquet", b".")

    assert delete_temporary_files(storage, "w", 60, recursive=True) == []
    assert delete_temporary_files(storage, "w", 0, recursive=True) == ["w/a/.x.parquet.0123abcd.tmp"]
    assert [entry.path for entry in storage.list("w", recursive=True)] == ["w/a/x.parquet"]


def test_an_empty_catalog_has_no_orphans(storage: Storage) -> None:
    assert sweep_orphans(storage) == []
