"""Pointers: copies of the newest version that readers look past, and that never go back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake.storage.folder import Storage
from hipslake.versions.log import RootPointers, VersionLog
from hypothesis import given
from hypothesis import strategies as st

from tests.versions.committing import FaultyStore, committed, metadata, to_its_write, write_id_of


@pytest.mark.parametrize("pointer", [None, b"", b"{ damaged", b"[]", b"{}", metadata(1, write_id_of(1))])
def test_readers_look_beyond_a_missing_damaged_or_stale_pointer(
    storage: Storage, pointer: bytes | None
) -> None:
    log = committed(storage, 5)
    if pointer is not None:
        storage.write("metadata.json", pointer)

    assert log.newest() == 5
    assert log.read() == metadata(5, write_id_of(5))
    assert log.publish_pointers() == 5
    assert storage.read("metadata.json") == metadata(5, write_id_of(5))


@given(count=st.integers(1, 40), standing=st.integers(0, 40))
def test_the_newest_version_is_found_however_far_a_pointer_lags(count: int, standing: int) -> None:
    storage = Storage.at(f"memory://{uuid.uuid4().hex}")
    for number in range(1, count + 1):
        storage.write(f"_versions/{number:08d}.json", metadata(number, "a"))
    if 0 < standing <= count:
        storage.write("metadata.json", metadata(standing, "a"))

    assert VersionLog(storage).newest() == count


def test_a_catalog_that_was_copied_without_its_log_can_be_read(storage: Storage) -> None:
    storage.write("metadata.json", metadata(7, "a"))

    assert VersionLog(storage).newest() == 7
    assert VersionLog(storage).read() == metadata(7, "a")


def test_pointers_name_the_newest_version_whoever_publishes_them(storage: Storage) -> None:
    log = committed(storage, 3)
    assert log.publish_pointers() == 3  # by the writer of version 2, say
    assert json.loads(storage.read("metadata.json"))["version"] == 3


def test_published_pointers_are_not_written_again(storage: Storage) -> None:
    log = committed(storage, 1)
    log.publish_pointers()
    before = storage.entry("metadata.json")
    log.publish_pointers()

    assert storage.entry("metadata.json") == before


def test_a_writer_that_was_overtaken_does_not_leave_pointers_behind(faulty: Storage) -> None:
    log = committed(faulty, 1)
    pointed: list[int] = []

    def overtake(path: str) -> None:
        """As version 1 is about to be pointed at, another writer commits version 2 and points at that."""
        if path.endswith("/metadata.json"):
            FaultyStore.before_put = None
            data = metadata(2, write_id_of(2))
            assert log.commit(2, data, write_id_of(2)) == "committed"
            assert VersionLog(faulty).publish_pointers() == 2

    def look(path: str) -> None:
        if path.endswith("/metadata.json"):
            pointed.append(json.loads(faulty.read("metadata.json"))["version"])

    FaultyStore.before_put, FaultyStore.after_put = overtake, look
    assert log.publish_pointers() == 2
    assert pointed == [2, 1, 2]
    assert json.loads(faulty.read("metadata.json"))["version"] == 2


def test_a_slow_writer_that_can_see_a_newer_version_does_not_write_the_older_one(faulty: Storage) -> None:
    log = committed(faulty, 1)
    pointed: list[int] = []

    def describe(data: bytes) -> RootPointers:
        if json.loads(data)["version"] == 1 and not pointed:
            data = metadata(2, write_id_of(2))
            assert log.commit(2, data, write_id_of(2)) == "committed"
            assert VersionLog(faulty).publish_pointers() == 2
        return RootPointers()

    FaultyStore.after_put = lambda path: (
        pointed.append(json.loads(faulty.read("metadata.json"))["version"])
        if path.endswith("/metadata.json")
        else None
    )
    assert log.publish_pointers(describe) == 2
    assert set(pointed) == {2}


def test_a_version_whose_files_were_vacuumed_while_it_was_described_is_not_pointed_at(
    storage: Storage,
) -> None:
    log = committed(storage, 1)

    def describe(data: bytes) -> RootPointers:
        if json.loads(data)["version"] == 1:
            log.commit(2, metadata(2, write_id_of(2)), write_id_of(2))
            raise FileNotFoundError("a sidecar of version 1")
        return RootPointers()

    assert log.publish_pointers(describe) == 2
    assert json.loads(storage.read("metadata.json"))["version"] == 2


def test_a_file_of_the_newest_version_that_is_missing_is_an_error(storage: Storage) -> None:
    def describe(data: bytes) -> RootPointers:
        raise FileNotFoundError("a sidecar")

    with pytest.raises(FileNotFoundError, match="a sidecar"):
        committed(storage, 1).publish_pointers(describe)


def test_further_pointers_follow_the_newest_version(storage: Storage) -> None:
    def describe(data: bytes) -> RootPointers:
        write_id = json.loads(data)["write_id"]
        return RootPointers(
            files={"collection.properties": f"hats_primary_table_url={write_id}/main\n".encode()}
        )

    log = committed(storage, 1)
    log.publish_pointers(describe)
    log.commit(2, metadata(2, write_id_of(2)), write_id_of(2))
    log.publish_pointers(describe)

    assert storage.read("collection.properties") == f"hats_primary_table_url={write_id_of(2)}/main\n".encode()


def test_current_leads_to_the_newest_write(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    log = committed(storage, 1)
    for number in (2, 3):
        storage.write(f"{write_id_of(number)}/file", str(number).encode())
        log.commit(number, metadata(number, write_id_of(number)), write_id_of(number))
        log.publish_pointers(to_its_write)
        assert (tmp_path / "current").readlink() == Path(write_id_of(number))
        assert storage.read("current/file") == str(number).encode()


def test_what_should_not_stand_is_removed(storage: Storage) -> None:
    log = committed(storage, 1)
    storage.write("note.txt", b"old")
    storage.write("write/file", b"data")
    storage.symlink("link", "write")

    assert log.publish_pointers(lambda data: RootPointers(absent=("note.txt", "link", "never"))) == 1
    assert not storage.exists("note.txt")
    assert storage.symlink_target("link") is None
    assert storage.read("write/file") == b"data"


def test_a_slow_writer_removes_nothing_once_a_newer_version_stands(storage: Storage) -> None:
    log = committed(storage, 1)

    def describe(data: bytes) -> RootPointers:
        if json.loads(data)["version"] == 1:
            log.commit(2, metadata(2, write_id_of(2)), write_id_of(2))
            storage.write("note.txt", b"of version 2")
            return RootPointers(absent=("note.txt",))
        return RootPointers()

    assert log.publish_pointers(describe) == 2
    assert storage.read("note.txt") == b"of version 2"


@pytest.mark.parametrize("pointer", ["current", "collection.properties"])
def test_a_slow_writer_does_not_put_back_what_another_has_replaced_meanwhile(
    tmp_path: Path, pointer: str
) -> None:
    storage, seen = Storage.at(tmp_path), []
    log = committed(storage, 1)

    def told(place: str) -> RootPointers:
        if pointer == "current":
            return RootPointers(links={pointer: place})
        return RootPointers(files={pointer: place.encode()})

    def describe(data: bytes) -> RootPointers:
        """While this writer is at it, another has built a tree and shows it."""
        seen.append(data)
        if len(seen) == 1:
            assert log.publish_pointers(lambda data: told("new"), watched=(pointer,)) == 1
            return told("old")
        return told("new")

    stood = []
    real = Storage.symlink if pointer == "current" else Storage.write
    with pytest.MonkeyPatch.context() as patch:

        def noted(storage: Storage, path: str, content: str | bytes, **knobs: bool) -> object:
            stood.append(content)
            return real(storage, path, content, **knobs)  # type: ignore[arg-type]

        patch.setattr(Storage, real.__name__, noted)
        assert log.publish_pointers(describe, watched=(pointer,)) == 1
    places = [content.decode() if isinstance(content, bytes) else content for content in stood]
    assert [place for place in places if place in ("new", "old")] == ["new"]


def at_once(data: bytes) -> RootPointers:
    """A further pointer that follows from the metadata alone."""
    return RootPointers({"sums": data[:20]}, at_once=True)


def test_pointers_of_a_commit_are_mended_if_others_have_committed_since(storage: Storage) -> None:
    log = committed(storage, 3)
    assert log.publish_pointers(at_once, known=2, committed=metadata(2, write_id_of(2))) == 3
    assert storage.read("metadata.json") == metadata(3, write_id_of(3))
    assert storage.read("sums") == metadata(3, write_id_of(3))[:20]


def test_a_look_that_is_overtaken_leaves_no_older_pointers(storage: Storage) -> None:
    log = committed(storage, 2)
    seen = log.look_at_pointers(["sums"], 2)
    committed(storage, 3).publish_pointers(at_once)
    assert log.publish_pointers(at_once, known=2, seen=seen) == 3
    assert storage.read("metadata.json") == metadata(3, write_id_of(3))
    assert storage.read("sums") == metadata(3, write_id_of(3))[:20]


def test_what_makes_sure_that_pointers_are_right_may_be_done_later(storage: Storage) -> None:
    log, later = committed(storage, 2), list[Callable[[], object]]()
    assert log.publish_pointers(at_once, later=later.append) == 2
    assert storage.read("metadata.json") == metadata(2, write_id_of(2))
    assert len(later) == (0 if storage.is_local else 1)
    storage.write("metadata.json", metadata(1, write_id_of(1)))  # as a slow run may, whose look was older
    committed(storage, 3)
    for ask in later:
        assert ask() == 3
        assert storage.read("metadata.json") == metadata(3, write_id_of(3))


def test_a_pointer_that_is_watched_is_looked_at_before_a_commit_changes_it(storage: Storage) -> None:
    log = committed(storage, 2)
    storage.write("sums", b"of another run")
    asked: list[bytes | None] = []

    def describe(data: bytes) -> RootPointers:
        asked.append(storage.read("sums"))
        return at_once(data)

    log.publish_pointers(describe, watched=["sums"], known=2, committed=metadata(2, write_id_of(2)))
    assert asked[0] == b"of another run"
    assert storage.read("sums") == metadata(2, write_id_of(2))[:20]
