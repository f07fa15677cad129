"""Files of a run folder in a store are fetched once in a step, and never taken for what they were."""

from __future__ import annotations

import pickle
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hipslake.errors import NotWritableError
from hipslake.steps.report import Report, Request, perform
from hipslake.steps.run_storage import MOST_KEPT, RunStorage, keeping_files, own_run, run_storage
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
