"""The log: each number is committed exactly once, own success recognised, and read as it was committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    CommitStateUnknownError,
    NoSpaceError,
    StorageError,
    VersionNotFoundError,
)
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import TOMBSTONES, tombstone, version_path

from tests.processes import in_processes
from tests.versions.committing import FaultyStore, committed, metadata, to_its_write, write_id_of

PROCESSES = 8
COMMITS = 5  # per process


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


def test_a_newest_version_that_is_overtaken_and_vacuumed_while_it_is_read_is_no_error(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = committed(storage, 2)
    newest_after = VersionLog._newest_after

    def overtaken(asked: VersionLog, known: int) -> int:
        found = newest_after(asked, known)
        if found == 2:
            log.commit(3, metadata(3, write_id_of(3)), write_id_of(3))
            storage.write(version_path(2), tombstone(2, write_id_of(2)))
        return found

    monkeypatch.setattr(VersionLog, "_newest_after", overtaken)
    assert log.read() == metadata(3, write_id_of(3))


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
        assert log.publish_pointers(to_its_write) >= number
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
        if path.endswith(version_path(1)):
            raise ConnectionError("the answer was lost")

    FaultyStore.after_put = lose_answer
    assert VersionLog(faulty).commit(1, metadata(1, "a"), "a") == "committed"


def test_a_lost_answer_to_anothers_commit_is_a_conflict(faulty: Storage) -> None:
    def others_first(path: str) -> None:
        if path.endswith(version_path(1)):
            FaultyStore.before_put = None
            committed(faulty, 1)
            raise ConnectionError("the answer was lost")

    FaultyStore.before_put = others_first
    assert VersionLog(faulty).commit(1, metadata(1, "a"), "a") == "conflict"


def test_a_commit_that_a_store_neither_confirms_nor_shows_is_unknown(faulty: Storage) -> None:
    def time_out(path: str) -> None:
        if path.endswith(version_path(1)):
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


@pytest.mark.parametrize("damage", [None, b"", b"[]", b'{"x": 1}', b'{"1"'])
def test_tombstones_that_are_noted_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
) -> None:
    storage = Storage.at(tmp_path)
    log = committed(storage, 4)
    for number in (1, 2):
        log.entomb(number)
    gone = {1: write_id_of(1), 2: write_id_of(2)}
    assert log.vacuumed() == gone
    log.note_vacuumed(gone)
    log.entomb(3)  # by a vacuum that was killed before it could note this
    if damage is not None:
        storage.write(TOMBSTONES, damage)
    read: list[str] = []
    monkeypatch.setattr(Storage, "read", noting(read, Storage.read))
    assert log.vacuumed() == gone | {3: write_id_of(3)}
    assert log.numbers() == [4]
    assert (version_path(1) in read) is (damage is not None)
    assert version_path(3) in read


def noting(read: list[str], how: Callable[[Storage, str], bytes]) -> Callable[[Storage, str], bytes]:
    """A way to read that says what it reads."""

    def noted(storage: Storage, path: str) -> bytes:
        read.append(path)
        return how(storage, path)

    return noted


def test_a_vacuumed_version_leaves_a_tombstone_that_keeps_its_number(storage: Storage) -> None:
    log = committed(storage, 3)
    log.entomb(1)
    log.entomb(1)

    assert log.numbers() == [2, 3]
    assert log.vacuumed() == {1: write_id_of(1)}
    assert log.newest() == 3
    with pytest.raises(VersionNotFoundError, match="version 1 was vacuumed; there are: 2, 3"):
        log.read(1)
    assert log.commit(1, metadata(1, "b"), "b") == "conflict"
    assert log.commit(1, metadata(1, write_id_of(1)), write_id_of(1)) == "committed"  # it once was
    assert [*log.texts()] == [metadata(3, write_id_of(3)), metadata(2, write_id_of(2))]


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


@pytest.mark.parametrize("lost", [1, 2])
def test_a_version_that_is_missing_before_newer_ones_is_told(storage: Storage, lost: int) -> None:
    log = committed(storage, 3)
    log.publish_pointers()
    storage.delete(version_path(lost))

    assert log.numbers() == sorted({1, 2, 3} - {lost})
    with pytest.raises(CatalogFormatError, match=rf"0{lost}\.json: is missing.*restore the file"):
        log.find("20261121T0330-dead")


def test_a_log_of_which_only_the_pointer_is_left_has_no_versions(storage: Storage) -> None:
    log = committed(storage, 1)
    log.publish_pointers()
    storage.delete(version_path(1))

    assert log.numbers() == []
    with pytest.raises(VersionNotFoundError, match="there are: none"):
        log.read(1)


def test_a_tombstone_in_the_place_of_the_newest_version_is_damage_and_no_race(storage: Storage) -> None:
    log = committed(storage, 2)
    storage.write(version_path(2), tombstone(2, write_id_of(2)))

    with pytest.raises(CatalogFormatError, match=r"newest version is a tombstone.*restore the file"):
        log.read()
