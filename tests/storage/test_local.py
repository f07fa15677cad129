"""Files of a real file system: kills, races, full and read-only disks, file systems without hard links."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.errors import NoSpaceError, NotWritableError, StorageError
from hipslake.storage import atomic
from hipslake.storage.atomic import sync_files, synced_behind, synced_later
from hipslake.storage.folder import Entry, Storage

from tests.processes import in_processes, killed

PROCESSES = 8


@pytest.fixture
def local(tmp_path: Path) -> Storage:
    return Storage.at(tmp_path)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a small file system with the given options; needs root."""
    mounted: list[Path] = []

    def mount_tmpfs(options: str) -> Path:
        place = tmp_path / f"mounted{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"file systems cannot be mounted here: {error}")
        mounted.append(place)
        return place

    yield mount_tmpfs
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without hard links, as exFAT or many FUSE mounts answer; forked processes inherit it."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.parametrize("size", [0, 1, (64 << 10) - 1, 64 << 10, (1 << 20) + 3])
def test_large_contents_arrive_whole(local: Storage, size: int) -> None:
    content = os.urandom(size)
    for data in (content, memoryview(content), pa.py_buffer(content)):
        local.write("large", data)
        assert local.read("large") == content


def names(entries: list[Entry]) -> list[str]:
    return [entry.path for entry in entries]


def test_a_killed_write_shows_nothing(local: Storage) -> None:
    local.write("file", b"old")

    def write_half() -> None:
        with local.open("file", "wb") as file:
            file.write(b"n" * 100_000)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    killed(write_half)

    assert local.read("file") == b"old"
    assert names(local.list()) == ["file"]
    assert len(local.unfinished()) == 1


def test_files_have_the_mode_that_the_umask_gives(local: Storage, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        local.write("written", b".")
        local.create("created", b".")
    finally:
        os.umask(before)

    for name in ("written", "created"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o640


RACES = [f"races/{n}" for n in range(20)]


def _take_part(storage: Storage, racer: int) -> list[str]:
    """Try to create twenty names; return those that were won."""
    return [path for path in RACES if storage.create(path, f"{racer} {path}\n".encode() * 1000)]


def _check_race(storage: Storage) -> None:
    won = in_processes(_take_part, [(storage, racer) for racer in range(PROCESSES)])

    assert sorted(path for paths in won for path in paths) == sorted(RACES)
    for racer, paths in enumerate(won):
        for path in paths:
            assert storage.read(path) == f"{racer} {path}\n".encode() * 1000
    assert names(storage.list("races")) == sorted(RACES)


def test_of_many_processes_one_creates_a_name(local: Storage) -> None:
    _check_race(local)
    assert local.unfinished("races") == []


@pytest.mark.usefixtures("without_links")
def test_of_many_processes_one_creates_a_name_without_links(local: Storage) -> None:
    _check_race(local)


@pytest.mark.usefixtures("without_links")
def test_a_claim_whose_winner_was_killed_is_finished_by_the_next(local: Storage, tmp_path: Path) -> None:
    def claim_and_die() -> None:
        Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign,assignment]
        local.create("name", b"winner")

    killed(claim_and_die)
    assert not local.exists("name")

    assert not local.create("name", b"late")
    assert local.read("name") == b"winner"


@pytest.mark.usefixtures("without_links")
def test_a_half_written_claim_is_waited_for_and_then_removed(
    local: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_CLAIM_PATIENCE", 0.02)
    claim = tmp_path / ".name.claim"
    claim.write_bytes(b"")

    with pytest.raises(StorageError, match="claimed this name") as raised:
        local.create("name", b"content")
    assert raised.value.retryable
    assert not local.exists("name")

    long_ago = time.time() - atomic.CLAIM_GRACE - 1
    os.utime(claim, (long_ago, long_ago))
    assert local.create("name", b"content")
    assert local.read("name") == b"content"
    assert not local.create("name", b"late")


def test_links_share_the_bytes(local: Storage, tmp_path: Path) -> None:
    local.write("a", b".")

    assert local.link("a", "b")
    assert (tmp_path / "a").samefile(tmp_path / "b")


@pytest.mark.parametrize("durable", [True, False])
def test_a_link_takes_the_place_of_what_stands_there_and_leaves_nothing_else(
    local: Storage, tmp_path: Path, durable: bool
) -> None:
    local.write("a", b"new")
    local.write("standing", b"old")
    (tmp_path / "folder").mkdir()
    for target in ("standing", "standing", "far/away/b"):
        assert local.link("a", target, durable=durable)
        assert (tmp_path / "a").samefile(tmp_path / target)
    with pytest.raises(FileNotFoundError):
        local.link("missing", "b", durable=durable)
    with pytest.raises(StorageError):
        local.link("a", "folder", durable=durable)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == ["a", "far", "far/away", "far/away/b", "folder", "standing"]


@pytest.mark.usefixtures("without_links")
def test_without_links_a_link_is_a_copy(local: Storage) -> None:
    local.write("a", b"content")

    assert not local.link("a", "b")
    assert local.read("b") == b"content"


def test_a_link_across_file_systems_is_a_copy(local: Storage, mount: Callable[[str], Path]) -> None:
    other = mount("size=1m").name
    local.write("a", b"content")

    assert not local.link("a", f"{other}/b")
    assert local.read(f"{other}/b") == b"content"


def test_a_symbolic_link_is_replaced(local: Storage, tmp_path: Path) -> None:
    assert local.symlink_target("current") is None
    for target in ("one", "two"):
        local.write(f"{target}/file", target.encode())
        assert local.symlink("current", target)
        assert local.symlink_target("current") == target
        assert local.read("current/file") == target.encode()
    assert (tmp_path / "current").is_symlink()
    assert local.unfinished() == []


def test_links_to_themselves_are_not_listed(local: Storage, tmp_path: Path) -> None:
    local.write("a/file", b"x")
    (tmp_path / "a" / "circle").symlink_to("circle")
    for recursive in (False, True):
        assert [entry.path for entry in local.list("a", recursive=recursive)] == ["a/file"]


def test_linked_folders_are_not_walked_twice(local: Storage) -> None:
    local.write("one/file", b".")
    local.symlink("current", "one")
    local.symlink("broken", "nowhere")

    assert names(local.list(recursive=True)) == ["one/file"]
    assert names(local.list()) == ["current", "one"]


def test_a_full_disk_is_told_and_changes_nothing(mount: Callable[[str], Path]) -> None:
    storage = Storage.at(mount("size=64k"))
    storage.write("file", b"old")
    too_much = b"x" * (1 << 20)

    attempts: list[Callable[[], object]] = [
        lambda: storage.write("file", too_much),
        lambda: storage.create("new", too_much),
        lambda: _write_block(storage, "file", too_much),
    ]
    for attempt in attempts:
        with pytest.raises(NoSpaceError, match=r"mounted0/\w+: no space left .*free space") as raised:
            attempt()
        assert raised.value.retryable

    assert storage.read("file") == b"old"
    assert names(storage.list()) == ["file"]
    assert storage.unfinished() == []
    storage.check_writable()


def _write_block(storage: Storage, path: str, data: bytes) -> None:
    with storage.open(path, "wb") as file:
        file.write(data)


def _write_beyond_limit(storage: Storage) -> str:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        storage.write("file", b"x" * 5000)
    except NoSpaceError as error:
        return str(error)
    return "no error"


def test_a_file_size_limit_is_told_and_changes_nothing(local: Storage, tmp_path: Path) -> None:
    local.write("file", b"old")

    (message,) = in_processes(_write_beyond_limit, [(local,)])

    assert f"{tmp_path}/file: no space left" in message
    assert local.read("file") == b"old"
    assert local.unfinished() == []


@pytest.fixture
def read_only(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Storage]:
    if os.getuid() == 0:  # root may write where the mode forbids it
        place = request.getfixturevalue("mount")("size=64k")
        (place / "file").write_bytes(b"content")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        yield Storage.at(place)
        return
    place = tmp_path / "locked"
    place.mkdir()
    (place / "file").write_bytes(b"content")
    place.chmod(0o555)
    yield Storage.at(place)
    place.chmod(0o755)


def test_a_read_only_place_is_told(read_only: Storage) -> None:
    attempts: list[Callable[[], object]] = [
        read_only.check_writable,
        read_only.sub("folder").check_writable,
        lambda: read_only.write("new", b"."),
        lambda: read_only.create("new", b"."),
        lambda: read_only.delete("file"),
        lambda: read_only.link("file", "new"),
        lambda: read_only.symlink("current", "file"),
        lambda: _write_block(read_only, "file", b"."),
    ]
    for attempt in attempts:
        with pytest.raises(NotWritableError, match=r"may not be written .*grant this user") as raised:
            attempt()
        assert read_only.root in str(raised.value)
        assert not raised.value.retryable

    assert read_only.read("file") == b"content"


def test_a_file_in_the_way_of_a_folder_is_told(local: Storage) -> None:
    local.write("a", b".")
    with pytest.raises(StorageError, match="a/b: could not be written"):
        local.write("a/b", b".")


def test_files_are_synced_behind_the_block_that_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, str]] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append((threading.current_thread().name, str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    (tmp_path / "new").mkdir()
    with synced_behind():
        for name in "ab":
            Storage(str(tmp_path)).write(f"new/{name}", name.encode())
    files = [str(tmp_path / "new" / name) for name in "ab"]
    assert [path for thread, path in synced if thread.startswith("sync")] == files
    assert [path for thread, path in synced if not thread.startswith("sync")] == [str(tmp_path / "new")]
    assert [Path(path).read_text() for path in files] == ["a", "b"]
    Storage(str(tmp_path)).write("new/c", b"c")
    assert not synced[-1][0].startswith("sync")  # as ever, after the block


def test_a_file_that_cannot_be_synced_behind_fails_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "no disk")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StorageError, match="no disk"), synced_behind():
        Storage(str(tmp_path)).write("a", b"a")


def test_files_are_synced_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    files = [tmp_path / folder / name for folder in ("one", "two") for name in "ab"]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    with synced_later():
        for path in files:
            Storage(str(path.parent)).write(path.name, path.name.encode())
    assert synced == []
    assert [path.read_text() for path in files] == ["a", "b", "a", "b"]
    sync_files(iter(files))
    assert sorted(synced[:4]) == [str(path) for path in files]
    assert synced[4:] == [str(tmp_path / "one"), str(tmp_path / "two")]  # once their files are there
    Storage(str(tmp_path)).write("c", b"c")
    assert synced[-1] == str(tmp_path)  # as ever, after the block


def test_a_file_that_cannot_be_synced_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def failing(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "b":
            raise OSError(errno.EIO, "no disk")
        sync(descriptor)

    for name in "abc":
        Storage(str(tmp_path)).write(name, b".")
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StorageError, match=r"/b: .*no disk"):
        sync_files([tmp_path / name for name in "abc"])
