"""Files of a run folder in a store are fetched once in a step, and never taken for what they were."""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hipslake.errors import NotWritableError
from hipslake.steps import run_storage as run_storage_module
from hipslake.steps.report import Report, Request, perform
from hipslake.steps.run_storage import MOST_KEPT, RunStorage, keeping_files, own_run, run_storage
from hipslake.steps.stored_behind import done_behind, flush, settled
from hipslake.storage.folder import Storage
from hipslake.storage.objects import ObjectFiles


@pytest.fixture
def uri() -> str:
    return f"memory://{uuid.uuid4().hex}/run"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often files are read from a store, by name."""
    found: Counter[str] = Counter()
    read = ObjectFiles.read

    def counted(files: ObjectFiles, uri: str) -> bytes:
        found[uri.rpartition("/")[2]] += 1
        return read(files, uri)

    monkeypatch.setattr(ObjectFiles, "read", counted)
    return found


def test_what_a_step_reads_is_fetched_once(uri: str, asked: Counter[str]) -> None:
    plain = Storage.at(uri)
    for name in ("a", "b", "c", "report"):
        plain.write(name, name.encode())
    with keeping_files(uri, ["a", "b", "missing"], "report") as probed:
        assert probed == b"report"
        assert asked == dict.fromkeys(("a", "b", "missing", "report"), 1)
        for _ in range(2):
            storage = run_storage(f"{uri}/")
            assert [storage.read(name) for name in ("a", "b", "c", "report")] == [b"a", b"b", b"c", b"report"]
        with pytest.raises(FileNotFoundError):
            storage.read("missing")
        assert asked == {"a": 1, "b": 1, "c": 1, "report": 3, "missing": 2}
        assert type(run_storage(f"{uri}-other")) is Storage
    assert type(run_storage(uri)) is Storage
    with keeping_files(uri, [], "missing") as probed:
        assert probed is None
    with keeping_files(uri, ["a"]) as probed:
        assert probed is None


def test_a_part_of_a_step_fetches_what_is_not_there_yet(uri: str, asked: Counter[str]) -> None:
    plain = Storage.at(uri)
    for name in ("a", "b", "report"):
        plain.write(name, name.encode())
    with keeping_files(uri, ["a"], "report"):
        with keeping_files(uri, ["a", "b"]):
            assert [run_storage(uri).read(name) for name in ("a", "b")] == [b"a", b"b"]
        plain.write("report", b"of another attempt")
        assert run_storage(uri).read("report") == b"of another attempt"
        assert [run_storage(uri).read(name) for name in ("a", "b")] == [b"a", b"b"]
    assert asked == {"a": 1, "b": 1, "report": 2}


def test_in_a_run_of_its_own_a_process_keeps_files_from_step_to_step(uri: str, asked: Counter[str]) -> None:
    with own_run(uri):
        with keeping_files(uri, [], "reports/first.json") as probed:
            assert probed is None
            run_storage(uri).write("run.json", b"run")
            run_storage(uri).write("reports/first.json", b"went well")
        with keeping_files(uri, ["run.json", "reports/first.json"], "reports/second.json") as probed:
            assert probed is None
            assert run_storage(uri).read("run.json") == b"run"
            assert run_storage(uri).read("reports/first.json") == b"went well"
        with keeping_files(uri, [], "reports/first.json") as probed:
            assert probed == b"went well"
        assert not asked
    assert type(run_storage(uri)) is Storage
    assert Storage.at(uri).read("reports/first.json") == b"went well"


def test_once_others_write_there_too_nothing_is_kept(uri: str, asked: Counter[str]) -> None:
    with own_run(uri) as kept:
        assert kept is not None
        run_storage(uri).write("run.json", b"run")
        run_storage(uri).write("reports/first.json", b"went well")
        kept.forget()
        Storage.at(uri).write("run.json", b"another")
        with keeping_files(uri, ["run.json"], "reports/first.json") as probed:
            assert probed == b"went well"
            assert run_storage(uri).read("run.json") == b"another"
    assert asked == {"run.json": 1, "first.json": 1}


LOOKS: dict[str, Callable[[Storage, str], bool]] = {
    "is_file": lambda storage, path: storage.is_file(path),
    "exists": lambda storage, path: storage.exists(path),
    "entry": lambda storage, path: storage.entry(path).size == 9,
    "read": lambda storage, path: storage.read(path) == b"went well",
    "open": lambda storage, path: storage.open(path).read() == b"went well",
    "list": lambda storage, path: [each.path for each in storage.list("reports")] == [path],
    "delete": lambda storage, path: storage.delete(path) is None and not storage.is_file(path),
    "delete_tree": lambda storage, path: storage.delete_tree("reports") is None and not storage.exists(path),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_report_that_is_being_stored_is_there(uri: str, monkeypatch: pytest.MonkeyPatch, look: str) -> None:
    write = ObjectFiles.write

    def slow(files: ObjectFiles, uri: str, data: object, *, durable: bool) -> None:
        time.sleep(0.2)
        write(files, uri, data, durable=durable)

    monkeypatch.setattr(ObjectFiles, "write", slow)
    with own_run(uri):
        begun = time.monotonic()
        run_storage(uri).write("reports/first.json", b"went well")
        assert time.monotonic() - begun < 0.1
        assert LOOKS[look](run_storage(uri), "reports/first.json")


@pytest.mark.parametrize("then", ["ends", "fails"])
def test_a_report_that_cannot_be_stored_is_told(uri: str, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    def refused(files: ObjectFiles, uri: str, data: object, *, durable: bool) -> None:
        raise NotWritableError(f"{uri}: no")

    def reported() -> None:
        with own_run(uri):
            monkeypatch.setattr(ObjectFiles, "write", refused)
            run_storage(uri).write("reports/first.json", b"went well")
            if then == "fails":
                raise KeyError

    with pytest.raises(NotWritableError if then == "ends" else KeyError):
        reported()
    assert type(run_storage(uri)) is Storage


def test_what_a_step_leaves_is_stored_together_and_soon(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_storage_module, "_LATEST", 0.2)
    plain = Storage.at(uri)
    with own_run(uri) as kept:
        assert kept is not None
        storage = run_storage(uri)
        for name in ("run.json", "requests/first.json", "histogram/schema.arrow"):
            storage.write(name, name.encode())
        assert plain.list(recursive=True) == []
        flush(storage)
        settled(storage)
        assert len(plain.list(recursive=True)) == 3
        storage.write("files.json", b"files")
        deadline = time.monotonic() + 10
        while not plain.is_file("files.json"):  # though nobody asks for it
            assert time.monotonic() < deadline
            time.sleep(0.01)
        storage.write("given/rows.parquet", b"rows")  # which others read
        assert plain.read("given/rows.parquet") == b"rows"
        storage.write("requests/first.json", b"older")
        storage.write("requests/first.json", b"newer")
        assert storage.read("requests/first.json") == b"newer"
    assert plain.read("requests/first.json") == b"newer"


def test_what_is_written_twice_ends_as_it_was_written_last(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, first = ObjectFiles.write, threading.Event()

    def slow(files: ObjectFiles, uri: str, data: object, *, durable: bool) -> None:
        if data == b"older":
            first.wait(0.3)
        write(files, uri, data, durable=durable)

    monkeypatch.setattr(ObjectFiles, "write", slow)
    with own_run(uri):
        storage = run_storage(uri)
        for text in (b"older", b"newer"):
            storage.write("reports/first.json", text)
            flush(storage)
    assert Storage.at(uri).read("reports/first.json") == b"newer"


def test_what_could_not_be_stored_is_told_until_it_is(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(files: ObjectFiles, uri: str, data: object, *, durable: bool) -> None:
        raise NotWritableError(f"{uri}: no")

    with own_run(uri):
        storage = run_storage(uri)
        with monkeypatch.context() as patched:
            patched.setattr(ObjectFiles, "write", refused)
            storage.write("run.json", b"run")
            for _ in range(2):
                with pytest.raises(NotWritableError):
                    settled(storage)
        storage.write("run.json", b"run")
        settled(storage)
    assert Storage.at(uri).read("run.json") == b"run"


def test_very_many_files_are_all_stored(uri: str) -> None:
    with own_run(uri):
        for number in range(200):
            run_storage(uri).write(f"append/attempts/a/{number}", b".")
    assert len(Storage.at(uri).list(recursive=True)) == 200


def test_counts_that_are_deleted_again_are_not_stored(uri: str, asked: Counter[str]) -> None:
    plain = Storage.at(uri)
    with own_run(uri):
        storage = run_storage(uri)
        storage.write("histogram/parts/a/0.arrow", b"counts")
        storage.write("histogram/parts/a/1.arrow", bytes(MOST_KEPT + 1))  # too large to be kept
        assert storage.read("histogram/parts/a/0.arrow") == b"counts"
        settled(storage)
        assert [entry.path for entry in plain.list(recursive=True)] == ["histogram/parts/a/1.arrow"]
        storage.delete_tree("histogram/parts/a")
        with pytest.raises(FileNotFoundError):
            storage.read("histogram/parts/a/0.arrow")
    assert plain.list(recursive=True) == []
    assert "0.arrow" not in asked


def test_of_a_place_that_only_this_process_fills_a_store_is_not_asked(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    for name in ("list", "is_file", "read"):
        plain = getattr(Storage, name)

        def noted(storage: Storage, path: str = "", _plain: Any = plain, **named: Any) -> Any:
            listed.append(path)
            return _plain(storage, path, **named)

        monkeypatch.setattr(Storage, name, noted)
    with own_run(uri):
        storage = run_storage(uri)
        assert storage.list("append/attempts") == []
        assert not storage.is_file("append/ordinal.json")
        with pytest.raises(FileNotFoundError):
            storage.read("append/ordinal.json")
        storage.delete_tree("histogram/parts")
        assert listed == []
        storage.write("append/attempts/a/attempt.json", b"{}")
        assert [entry.path for entry in storage.list("append/attempts")] == ["append/attempts/a"]
        assert listed == ["append/attempts"]
    with keeping_files(uri, []):  # where others may write, a store is asked
        assert run_storage(uri).list("append/nothing") == []
        assert not run_storage(uri).is_file("append/ordinal.json")
    assert listed[1:] == ["append/nothing", "append/ordinal.json"]


def test_tasks_in_other_threads_find_what_is_kept(uri: str) -> None:
    with own_run(uri) as kept, ThreadPoolExecutor(1) as pool:
        assert pool.submit(run_storage, uri).result() is kept
    with ThreadPoolExecutor(1) as pool:
        assert type(pool.submit(run_storage, uri).result()) is Storage


def test_what_is_done_behind_the_work_is_done_when_a_run_has_ended(uri: str, tmp_path: Path) -> None:
    catalog, done = Storage.at(uri).sub("catalog"), threading.Event()
    with own_run(uri):
        for asks in ((lambda: time.sleep(0.1), done.set), (lambda: None,)):
            behind = done_behind(uri, catalog, "signs")
            assert behind is not None
            behind(*asks)
        assert done_behind(uri, Storage.at(tmp_path), "signs") is None
    assert done.is_set()
    assert done_behind(uri, catalog, "signs") is None


def test_an_error_of_what_is_done_behind_the_work_is_told(uri: str) -> None:
    def refused() -> None:
        raise NotWritableError("no")

    def run() -> None:
        with own_run(uri):
            behind = done_behind(uri, Storage.at(uri), "signs")
            assert behind is not None
            behind(refused)

    with pytest.raises(NotWritableError):
        run()


@pytest.mark.parametrize(("size", "reads"), [(1 << 20, 1), ((1 << 20) + 1, 3)])
def test_a_large_file_that_is_read_is_not_kept(uri: str, asked: Counter[str], size: int, reads: int) -> None:
    Storage.at(uri).write("a", bytes(size))
    with keeping_files(uri, []):
        for _ in range(3):
            assert len(run_storage(uri).read("a")) == size
    assert asked == {"a": reads}


CHANGES: dict[str, Callable[[Storage], object]] = {
    "write": lambda storage: storage.write("folder/a", b"new"),
    "open": lambda storage: _written(storage),
    "copy": lambda storage: storage.copy("other", "folder/a"),
    "link": lambda storage: storage.link("other", "folder/a"),
    "delete": lambda storage: storage.delete("folder/a"),
    "delete_tree": lambda storage: storage.delete_tree("folder"),
}


def _written(storage: Storage) -> None:
    with storage.open("folder/a", "wb") as file:
        file.write(b"new")


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_a_step_changes_is_not_kept_as_it_was(uri: str, change: str) -> None:
    plain = Storage.at(uri)
    plain.write("folder/a", b"old")
    plain.write("other", b"new")
    with keeping_files(uri, ["folder/a"]):
        storage = run_storage(uri)
        assert storage.read("folder/a") == b"old"
        CHANGES[change](storage)
        if change.startswith("delete"):
            with pytest.raises(FileNotFoundError):
                storage.read("folder/a")
        else:
            assert storage.read("folder/a") == plain.read("folder/a") == b"new"


@pytest.mark.parametrize(("size", "reads"), [(MOST_KEPT, 0), (MOST_KEPT + 1, 1)])
def test_what_a_step_writes_is_kept_if_it_is_small(
    uri: str, asked: Counter[str], size: int, reads: int
) -> None:
    with keeping_files(uri, []):
        run_storage(uri).write("a", memoryview(bytes(size)))
        assert run_storage(uri).read("a") == bytes(size)
        assert asked["a"] == reads
    assert Storage.at(uri).read("a") == bytes(size)


def test_a_task_elsewhere_gets_the_folder_alone(uri: str) -> None:
    with keeping_files(uri, []):
        storage = run_storage(uri)
        assert isinstance(storage, RunStorage)
        storage.write("a", b"1")
        sent = pickle.loads(pickle.dumps(storage))
        assert type(sent) is Storage
        assert sent == Storage.at(uri)
        assert sent.read("a") == b"1"


def test_nothing_is_kept_of_a_folder_on_a_disk(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    with keeping_files(str(tmp_path), ["a"], "a") as probed:
        assert probed == b"1"
        assert type(run_storage(str(tmp_path))) is Storage
        (tmp_path / "a").write_bytes(b"2")
        assert run_storage(str(tmp_path)).read("a") == b"2"


class WordRequest(Request):
    """Say a word that a step before has left."""

    step: ClassVar[str] = "word"
    depends_on: ClassVar[str] = "request"
    reads: ClassVar[tuple[str, ...]] = ("word",)


class WordReport(Report):
    """What was said."""

    step: str = WordRequest.step
    word: str = ""


def said(request: Any) -> WordReport:
    return WordReport(word=request.folder.storage.read("word").decode())


def test_a_step_finds_what_was_left_since_the_one_before(uri: str, asked: Counter[str]) -> None:
    Storage.at(uri).write("word", b"first")
    assert perform(said, WordRequest(run_uri=uri), WordReport).word == "first"
    assert asked == {"word": 1, "word.json": 1}
    again = perform(said, WordRequest(run_uri=uri), WordReport)
    assert (again.word, again.reused) == ("first", True)
    Storage.at(uri).delete("reports/word.json")
    Storage.at(uri).write("word", b"second")
    assert perform(said, WordRequest(run_uri=uri), WordReport).word == "second"
    assert Storage.at(uri).is_file("requests/word.json")
