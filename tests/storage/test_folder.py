"""The door to files and objects, the same on a file system and on a store without folders."""

from __future__ import annotations

import hashlib
import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.core import split_protocol
from hipslake.errors import NotWritableError, StorageError
from hipslake.storage.folder import Entry, Storage
from hipslake.storage.folder_paths import _scheme_and_path
from hypothesis import given
from hypothesis import strategies as st

from tests.stores.ranges import read_ranges


def names(entries: list[Entry]) -> list[str]:
    return [entry.path for entry in entries]


def test_what_is_written_is_read(storage: Storage) -> None:
    storage.write("a/b/c.bin", b"first")
    storage.write("a/b/c.bin", pa.py_buffer(b"second"))

    assert storage.read("a/b/c.bin") == b"second"
    with storage.open("a/b/c.bin") as file:
        assert file.read() == b"second"


@pytest.mark.parametrize(
    ("start", "stop", "found"), [(0, 3, b"abc"), (2, 4, b"cd"), (4, 9, b"ef"), (3, 3, b""), (0, 6, b"abcdef")]
)
def test_a_range_is_read_up_to_the_end_of_the_file(
    storage: Storage, start: int, stop: int, found: bytes
) -> None:
    storage.write("a", b"abcdef")
    assert storage.read_range("a", start, stop) == found
    with pytest.raises(FileNotFoundError):
        storage.read_range("b", 0, 1)


def test_a_block_that_ends_publishes_the_file(storage: Storage) -> None:
    with storage.open("a/big", "wb") as file:
        file.write(b"1" * 1000)
        file.write(b"2" * 1000)
        assert not storage.exists("a/big")

    assert storage.read("a/big") == b"1" * 1000 + b"2" * 1000


def test_a_block_that_fails_leaves_what_was_there(storage: Storage) -> None:
    storage.write("file", b"old")

    with suppress(KeyError), storage.open("file", "wb") as file:
        file.write(b"half of the n")
        raise KeyError

    assert storage.read("file") == b"old"
    assert storage.unfinished() == []


def test_a_name_is_created_once(storage: Storage) -> None:
    assert storage.create("folder/n", b"winner")
    assert not storage.create("folder/n", b"loser")
    assert storage.read("folder/n") == b"winner"
    assert storage.unfinished("folder") == []


def test_listings_are_sorted_and_relative(storage: Storage) -> None:
    for path in ("b", "a/2", "a/10", "a/deep/er", "a.txt"):
        storage.write(path, path.encode())

    assert [(e.path, e.size, e.is_dir) for e in storage.list()] == [
        ("a", 0, True),
        ("a.txt", 5, False),
        ("b", 1, False),
    ]
    assert names(storage.list("a")) == ["a/10", "a/2", "a/deep"]
    assert names(storage.list("a/", recursive=True)) == ["a/10", "a/2", "a/deep/er"]
    assert names(storage.list(recursive=True)) == ["a.txt", "a/10", "a/2", "a/deep/er", "b"]
    assert storage.sub("a").list("deep")[0].path == "deep/er"


def test_a_missing_folder_is_empty(storage: Storage) -> None:
    assert storage.list("nothing/here") == []
    assert storage.list("nothing/here", recursive=True) == []
    assert storage.glob("nothing/*") == []


def test_globs_match_files_only(storage: Storage) -> None:
    for path in ("x/a.csv", "x/b.csv", "x/b.csv.gz", "x/c.csv/part", "y/a.csv"):
        storage.write(path, b".")

    assert names(storage.glob("x/*.csv")) == ["x/a.csv", "x/b.csv"]
    assert names(storage.glob("*/[ab].csv")) == ["x/a.csv", "x/b.csv", "y/a.csv"]
    assert names(storage.glob("**/a.csv")) == ["x/a.csv", "y/a.csv"]


def test_magic_in_the_name_of_the_root_is_no_pattern(storage: Storage) -> None:
    odd = storage.sub("run[1]")
    odd.write("a.csv", b".")
    storage.write("run1/b.csv", b".")

    assert names(odd.glob("*.csv")) == ["a.csv"]
    storage.write("run1/folder/kept", b".")
    odd.write("folder/a", b".")
    odd.delete_tree("folder")
    assert names(storage.list(recursive=True)) == ["run1/b.csv", "run1/folder/kept", "run[1]/a.csv"]


def test_an_entry_is_the_one_of_the_listing(storage: Storage) -> None:
    storage.write("a/file", b"123")

    assert storage.entry("a/file") == storage.list("a")[0] == storage.glob("a/*")[0]
    assert storage.entry("a") == Entry("a", 0, "", True)


def test_the_stamp_tells_a_replaced_file_of_equal_size(storage: Storage) -> None:
    storage.write("file", b"123")
    before = storage.entry("file")
    storage.write("file", b"456")

    assert storage.entry("file").size == before.size
    assert storage.entry("file").stamp != before.stamp


def test_files_are_told_from_folders_and_from_nothing(storage: Storage) -> None:
    storage.write("folder/file", b"123")
    storage.write("folder/empty", b"")
    assert storage.is_file("folder/file")
    assert storage.is_file("folder/empty")
    assert not storage.is_file("folder")
    assert not storage.is_file("nothing")
    assert not storage.is_file("nowhere/nothing")


def test_pyarrow_reads_a_file_whose_size_is_known(storage: Storage) -> None:
    table = pa.table({"id": range(1000)})
    with storage.open("t.parquet", "wb") as file:
        pq.write_table(table, file)
    for size in (None, storage.entry("t.parquet").size):
        with storage.arrow_file("t.parquet", size) as opened:
            assert pq.read_table(opened).equals(table)
    with pytest.raises(FileNotFoundError), storage.arrow_file("nothing", 1000) as opened:
        pq.read_metadata(opened)


def test_what_is_missing_is_a_file_not_found_error(storage: Storage) -> None:
    assert not storage.exists("nothing")
    for look in (storage.read, storage.open, storage.entry, storage.sha256):
        with pytest.raises(FileNotFoundError):
            look("nothing")


def test_deleting_twice_is_fine(storage: Storage) -> None:
    storage.write("tree/a/b", b".")
    storage.write("file", b".")
    for _ in range(2):
        storage.delete("file")
        storage.delete_tree("tree")

    assert storage.list() == []


def test_the_root_is_not_deleted(storage: Storage) -> None:
    storage.write("file", b".")
    for path in ("", ".", "./"):
        with pytest.raises(ValueError, match="root"):
            storage.delete_tree(path)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd"])
def test_paths_cannot_leave_the_root(storage: Storage, path: str) -> None:
    for use in (storage.read, storage.delete, storage.delete_tree, lambda p: storage.write(p, b"")):
        with pytest.raises(ValueError, match="leads out of"):
            use(path)


def test_a_link_has_the_same_content_and_can_be_made_again(storage: Storage) -> None:
    storage.write("a", b"content")
    for _ in range(2):
        storage.link("a", "there/b")

    assert storage.read("there/b") == b"content"
    assert storage.unfinished("there") == []
    storage.write("a", b"changed")  # a replaced file is another file, so what was linked stays
    assert storage.read("there/b") == b"content"


def test_sha256_is_that_of_the_bytes(storage: Storage) -> None:
    content = os.urandom(100_000)
    storage.write("file", content)

    assert storage.sha256("file") == hashlib.sha256(content).hexdigest()


def test_pyarrow_reads_what_storage_writes_and_the_other_way_round(storage: Storage) -> None:
    table = pa.table({"x": [1, 2, 3]})
    with storage.open("t.parquet", "wb") as file:
        pq.write_table(table, file)
    assert pq.read_table(storage.arrow_path("t.parquet"), filesystem=storage.arrow_filesystem()) == table

    pq.write_table(table, storage.arrow_path("u.parquet"), filesystem=storage.arrow_filesystem())
    assert pq.read_table(storage.open("u.parquet")) == table


def test_a_pickled_storage_is_the_same_place(storage: Storage) -> None:
    storage.write("file", b".")
    assert pickle.loads(pickle.dumps(storage)) == storage
    assert pickle.loads(pickle.dumps(storage)).exists("file")


def test_a_uri_leads_back(storage: Storage) -> None:
    storage.write("a/file", b"content")
    assert Storage.at(storage.uri("a")).read("file") == b"content"
    assert Storage.at(storage.uri("a") + "/").read("file") == b"content"


def test_local_places_have_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (str(tmp_path / "x"), f"file://{tmp_path}/x/", "x", "./x"):
        assert Storage.at(name) == Storage(f"{tmp_path}/x")


class BrokenStore(fsspec.get_filesystem_class("memory")):  # type: ignore[misc]
    """A store whose connection is down."""

    protocol = "broken"

    def info(self, path: str, **_: object) -> dict[str, Any]:
        raise RuntimeError("connection reset")  # stands for a client's own exception class


def test_an_unreachable_store_is_an_error_and_not_an_absent_file() -> None:
    fsspec.register_implementation("broken", BrokenStore, clobber=True)
    with pytest.raises(StorageError, match=r"broken://bucket/file: could not be read .*connection reset"):
        Storage.at("broken://bucket").exists("file")


def test_stores_have_no_symbolic_links() -> None:
    assert not Storage.at("memory://nowhere").symlink("current", "one")
    assert Storage.at("memory://nowhere").symlink_target("current") is None


def test_a_file_in_the_root_folder_is_there_by_its_uri_too() -> None:
    for text in ("/sky.moc", "file:///sky.moc"):
        assert Storage.of_file(text) == (Storage.at("/"), "sky.moc")
    assert Storage.of_file("file:///data/sky.moc") == (Storage.at("/data"), "sky.moc")
    assert Storage.of_file("sky.moc") == (Storage.at("."), "sky.moc")


def test_one_folder_is_known_by_all_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("a", "link", "a/../a"):
        assert Storage.at(tmp_path / "a").is_same_place(Storage.at(tmp_path / name))
    assert not Storage.at(tmp_path / "a").is_same_place(Storage.at(tmp_path / "b"))
    assert not Storage.at("memory://a").is_same_place(Storage.at("/a"))
    assert Storage.at("memory://a/").is_same_place(Storage.at("memory://a"))


def test_hidden_files_and_folders_are_told_apart_from_what_matches(storage: Storage) -> None:
    for path in ("x/a.csv", "x/.b.csv", "x/_c.csv", "x/d.csv/part", ".h/a.csv"):
        storage.write(path, b".")
    files, passed_over = storage.matches("x/*.csv")
    assert names(files) == ["x/_c.csv", "x/a.csv"]
    assert names(passed_over) == ["x/.b.csv", "x/d.csv"]
    assert names(storage.glob("x/.*.csv")) == ["x/.b.csv"]
    files, passed_over = storage.matches("**/a.csv")
    assert names(files) == ["x/a.csv"]
    assert names(passed_over) == [".h/a.csv"]
    assert names(storage.matches("x/*").passed_over) == ["x/.b.csv"]


def test_many_ranges_are_read_also_of_mounts(storage: Storage, tmp_path: Path) -> None:
    other = Storage.at(tmp_path / "other")
    other.write("b", b"0123456789")
    storage.write("a", b"abcdefghij")
    mounting = storage.mounting((("mounted", other.root),))
    asked = [("a", 2, 5), ("mounted/b", 0, 3), ("a", 9, 99)]
    assert read_ranges(mounting, asked) == [b"cde", b"012", b"j"]
    assert read_ranges(mounting, [("mounted/b", 1, 2)] * 3) == [b"1"] * 3
    assert read_ranges(mounting, []) == []
    with pytest.raises(FileNotFoundError):
        read_ranges(mounting, [*asked, ("mounted/none", 0, 3)])


def test_many_files_are_written_and_deleted_and_none_below_a_mount(storage: Storage, tmp_path: Path) -> None:
    storage.write_all({"a": b"1", "b/c": memoryview(b"23"), "d": pa.py_buffer(b"456")})
    assert [(entry.path, entry.size) for entry in storage.list(recursive=True)] == [
        ("a", 1),
        ("b/c", 2),
        ("d", 3),
    ]
    storage.delete_all(["a", "b/c", "none"])
    assert [entry.path for entry in storage.list(recursive=True)] == ["d"]
    storage.write_all({})
    storage.delete_all([])
    mounting = storage.mounting((("mounted", str(tmp_path)),))
    with pytest.raises(NotWritableError, match="mounted"):
        mounting.write_all({"e": b"", "mounted/f": b""})
    with pytest.raises(NotWritableError, match="mounted"):
        mounting.delete_all(["d", "mounted/f"])
    assert [entry.path for entry in storage.list(recursive=True)] == ["d"]


@given(st.text(alphabet="s3:/dat~.\\", max_size=12))
def test_schemes_and_paths_are_cut_as_fsspec_cuts_them(uri: str) -> None:
    assert _scheme_and_path(uri) == tuple(split_protocol(uri))
