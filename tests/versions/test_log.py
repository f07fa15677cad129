"""The commit: each number exactly once, own success recognised, pointers that do not go back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    CommitStateUnknownError,
    NoSpaceError,
    StorageError,
    VersionNotFoundError,
)
from hipslake.storage import Storage
from hipslake.versions.log import Pointers, VersionLog
from hypothesis import given
from hypothesis import strategies as st

from tests.processes import in_processes

PROCESSES = 8
COMMITS = 5  # per process


class FaultyStore(fsspec.get_filesystem_class("memory")):  # type: ignore[misc]
    """A store in memory that calls `before_put` and `after_put` with each path that is written."""

    protocol = "faulty"
    before_put: Callable[[str], None] | None = None
    after_put: Callable[[str], None] | None = None

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: object) -> None:
        if FaultyStore.before_put:
            FaultyStore.before_put(path)
        super().pipe_file(path, value, mode=mode, **options)
        if FaultyStore.after_put:
            FaultyStore.after_put(path)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Storage:
    fsspec.register_implementation("faulty", FaultyStore, clobber=True)
    monkeypatch.setattr(FaultyStore, "before_put", None)
    monkeypatch.setattr(FaultyStore, "after_put", None)
    return Storage.at(f"faulty://{uuid.uuid4().hex}")


def metadata(number: int, write_id: str, **more: object) -> bytes:
    return json.dumps({"version": number, "write_id": write_id, **more}).encode()


def write_id_of(number: int) -> str:
    return f"20261121T0330-{number:04x}"


def committed(storage: Storage, count: int) -> VersionLog:
    log = VersionLog(storage)
    for number in range(1, count + 1):
        data = metadata(number, write_id_of(number))
        assert log.commit(number, data, write_id_of(number)) == "committed"
    return log


def test_nothing_is_committed_yet(storage: Storage) -> None:
    log = VersionLog(storage)

    assert log.newest() is None
    assert log.numbers() == []
    with pytest.raises(CatalogNotFoundError, match="nothing is published here"):
        log.read()
    with pytest.raises(VersionNotFoundError, match="version 3 does not exist; there are: none"):
        log.read(3)
    with pytest.raises(CatalogNotFoundError):
        log.publish_pointers()


def test_versions_are_read_as_committed(storage: Storage) -> None:
    log = committed(storage, 3)

    assert log.newest() == 3
    assert log.numbers() == [1, 2, 3]
    assert log.read() == metadata(3, write_id_of(3))
    assert log.read(2) == metadata(2, write_id_of(2))
    assert storage.read("_versions/00000002.json") == metadata(2, write_id_of(2))
    with pytest.raises(VersionNotFoundError, match="there are: 1, 2, 3"):
        log.read(4)


def test_a_taken_number_is_a_conflict_and_changes_nothing(storage: Storage) -> None:
    log = committed(storage, 2)

    assert log.commit(2, metadata(2, "20261121T0331-beef"), "20261121T0331-beef") == "conflict"
    assert log.read(2) == metadata(2, write_id_of(2))


def test_a_commit_that_is_tried_again_recognises_itself(storage: Storage) -> None:
    log = committed(storage, 2)

    assert log.commit(2, metadata(2, write_id_of(2), later=True), write_id_of(2)) == "committed"
    assert log.read(2) == metadata(2, write_id_of(2))


def test_numbers_have_no_gaps(storage: Storage) -> None:
    log = committed(storage, 1)
    for number in (0, 3):
        with pytest.raises(VersionNotFoundError, match="the next one is 2"):
            log.commit(number, metadata(number, "20261121T0331-beef"), "20261121T0331-beef")


def test_metadata_of_another_version_or_write_is_refused(storage: Storage) -> None:
    log = VersionLog(storage)
    with pytest.raises(ValueError, match="version 2"):
        log.commit(1, metadata(2, "a"), "a")
    with pytest.raises(ValueError, match="write b"):
        log.commit(1, metadata(1, "b"), "a")
    with pytest.raises(CatalogFormatError, match="not JSON"):
        log.commit(1, b"{", "a")
    assert log.newest() is None


def _commit_some(storage: Storage, writer: int) -> list[int]:
    """Commit `COMMITS` versions in the face of others, and publish the pointers after each."""
    log = VersionLog(storage)
    numbers = []
    for turn in range(COMMITS):
        write_id = f"20261121T0330-{writer:02x}{turn:02x}"
        storage.write(f"{write_id}/file", b".", durable=False)
        while True:
            number = (log.newest() or 0) + 1
            if log.commit(number, metadata(number, write_id), write_id) == "committed":
                break
        numbers.append(number)
        assert log.publish_pointers() >= number
    return numbers


def _check_concurrent_commits(storage: Storage) -> None:
    won = in_processes(_commit_some, [(storage, writer) for writer in range(PROCESSES)])

    total = PROCESSES * COMMITS
    assert sorted(number for numbers in won for number in numbers) == list(range(1, total + 1))
    log = VersionLog(storage)
    assert log.numbers() == list(range(1, total + 1))
    for writer, numbers in enumerate(won):
        for turn, number in enumerate(numbers):
            assert log.read(number) == metadata(number, f"20261121T0330-{writer:02x}{turn:02x}")
    newest = json.loads(storage.read("metadata.json"))
    assert newest["version"] == total
    assert storage.symlink_target("current") == newest["write_id"]
    assert storage.unfinished() == []


def test_eight_processes_commit_each_number_exactly_once(tmp_path: Path) -> None:
    _check_concurrent_commits(Storage.at(tmp_path))


def test_eight_processes_commit_each_number_exactly_once_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    _check_concurrent_commits(Storage.at(tmp_path))


def test_a_lost_answer_to_a_commit_is_recognised_as_success(faulty: Storage) -> None:
    def lose_answer(path: str) -> None:
        raise ConnectionError("the answer was lost")

    FaultyStore.after_put = lose_answer
    assert VersionLog(faulty).commit(1, metadata(1, "a"), "a") == "committed"


def test_a_lost_answer_to_anothers_commit_is_a_conflict(faulty: Storage) -> None:
    def others_first(path: str) -> None:
        FaultyStore.before_put = None
        committed(faulty, 1)
        raise ConnectionError("the answer was lost")

    FaultyStore.before_put = others_first
    assert VersionLog(faulty).commit(1, metadata(1, "a"), "a") == "conflict"


def test_a_commit_that_a_store_neither_confirms_nor_shows_is_unknown(faulty: Storage) -> None:
    def time_out(path: str) -> None:
        raise TimeoutError("no answer")  # the request may still be under way

    FaultyStore.before_put = time_out
    with pytest.raises(
        CommitStateUnknownError, match=r"whether version 1 was committed .*no answer"
    ) as raised:
        VersionLog(faulty).commit(1, metadata(1, "a"), "a")
    assert raised.value.retryable


def test_a_commit_that_a_store_refuses_is_not_unknown(faulty: Storage) -> None:
    def refuse(path: str) -> None:
        raise PermissionError("AccessDenied")

    FaultyStore.before_put = refuse
    with pytest.raises(StorageError, match="may not be written") as raised:
        VersionLog(faulty).commit(1, metadata(1, "a"), "a")
    assert not raised.value.retryable


def test_a_commit_on_a_full_disk_does_not_stand(tmp_path: Path) -> None:
    (message,) = in_processes(_commit_beyond_limit, [(Storage.at(tmp_path),)])

    assert "no space left" in message
    assert VersionLog(Storage.at(tmp_path)).newest() is None


def _commit_beyond_limit(storage: Storage) -> str:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        return VersionLog(storage).commit(1, metadata(1, "a", filling="x" * 5000), "a")
    except NoSpaceError as error:
        return str(error)


def test_unfinished_and_foreign_files_are_no_versions(storage: Storage) -> None:
    log = committed(storage, 2)
    storage.write("_versions/.00000003.json.0123abcd.tmp", b"{")
    storage.write("_versions/readme.txt", b"!")
    storage.write("_versions/swept/20261121T0330-7f3a.json", b"{}")

    assert log.newest() == 2
    assert log.numbers() == [1, 2]
    assert log.commit(3, metadata(3, "a"), "a") == "committed"


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

    def describe(data: bytes) -> Pointers:
        if json.loads(data)["version"] == 1 and not pointed:
            data = metadata(2, write_id_of(2))
            assert log.commit(2, data, write_id_of(2)) == "committed"
            assert VersionLog(faulty).publish_pointers() == 2
        return Pointers()

    FaultyStore.after_put = lambda path: (
        pointed.append(json.loads(faulty.read("metadata.json"))["version"])
        if path.endswith("/metadata.json")
        else None
    )
    assert log.publish_pointers(describe) == 2
    assert set(pointed) == {2}


def test_further_pointers_follow_the_newest_version(storage: Storage) -> None:
    def describe(data: bytes) -> Pointers:
        write_id = json.loads(data)["write_id"]
        return Pointers(files={"collection.properties": f"hats_primary_table_url={write_id}/main\n".encode()})

    log = committed(storage, 1)
    log.publish_pointers(describe)
    log.commit(2, metadata(2, write_id_of(2)), write_id_of(2))
    log.publish_pointers(describe)

    assert storage.read("collection.properties") == f"hats_primary_table_url={write_id_of(2)}/main\n".encode()


def test_current_leads_to_the_newest_write(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    log = committed(storage, 1)
    log.publish_pointers()
    assert not storage.exists("current")  # no folder to lead to

    for number in (2, 3):
        storage.write(f"{write_id_of(number)}/file", str(number).encode())
        log.commit(number, metadata(number, write_id_of(number)), write_id_of(number))
        log.publish_pointers()
        assert (tmp_path / "current").readlink() == Path(write_id_of(number))
        assert storage.read("current/file") == str(number).encode()


def test_a_vacuumed_version_leaves_a_tombstone_that_keeps_its_number(storage: Storage) -> None:
    log = committed(storage, 3)
    log.entomb(1)
    log.entomb(1)

    assert log.numbers() == [2, 3]
    assert log.newest() == 3
    with pytest.raises(VersionNotFoundError, match="version 1 was vacuumed; there are: 2, 3"):
        log.read(1)
    assert log.commit(1, metadata(1, "b"), "b") == "conflict"
    assert log.commit(1, metadata(1, write_id_of(1)), write_id_of(1)) == "committed"  # it once was
    assert log.texts() == [metadata(2, write_id_of(2)), metadata(3, write_id_of(3))]


@pytest.mark.parametrize("number", [0, 3, 4])
def test_only_versions_before_the_newest_can_be_vacuumed(storage: Storage, number: int) -> None:
    log = committed(storage, 3)
    with pytest.raises(VersionNotFoundError, match="before the newest, which is 3"):
        log.entomb(number)


def test_the_version_of_a_write_is_found(storage: Storage) -> None:
    log = committed(storage, 3)
    log.entomb(2)

    assert [log.find(write_id_of(number)) for number in (1, 2, 3)] == [1, 2, 3]
    assert log.find("20261121T0331-beef") is None


def test_a_damaged_version_is_told(storage: Storage) -> None:
    log = committed(storage, 2)
    storage.write("_versions/00000001.json", b"{ half")

    with pytest.raises(CatalogFormatError, match=r"00000001\.json: not JSON"):
        log.read(1)
    assert log.numbers() == [1, 2]
    assert log.read() == metadata(2, write_id_of(2))
