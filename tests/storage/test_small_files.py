"""Looking at many small files in threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from threading import Barrier, Thread, current_thread
from time import sleep

import pytest
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import beside, in_threads, text_of, together

STORE = Storage.at("memory://small-files")


@pytest.fixture(params=["store", "local"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A store, and a local disk, of which threads read only what takes some time."""
    return STORE if request.param == "store" else Storage.at(tmp_path)


def pausing(each: int) -> int:
    """Take as long as makes it worth to start threads, once in a while."""
    if each in (2, 20):
        sleep(0.02)
    return each


@pytest.mark.parametrize("number", [0, 1, 2, 3, 16, 17, 255, 256, 257, 1000])
def test_results_come_in_the_order_of_the_inputs(at: Storage, number: int) -> None:
    assert list(in_threads(at, pausing, range(number))) == list(range(number))


@pytest.mark.parametrize("failing", [0, 1, 3, 40, 255, 299])
def test_an_error_comes_after_the_results_of_the_inputs_before_it(at: Storage, failing: int) -> None:
    def look(each: int) -> int:
        if each >= failing:
            raise ValueError(each)
        return pausing(each)

    found = []
    with pytest.raises(ValueError, match=f"^{failing}$"):
        found.extend(each for each in in_threads(at, look, range(300)))
    assert found == list(range(failing))


def test_few_of_a_store_are_looked_at_side_by_side() -> None:
    together = Barrier(3, timeout=20)
    assert list(in_threads(STORE, lambda each: together.wait() is not None, range(3))) == [True] * 3


def test_one_is_looked_at_without_threads(at: Storage) -> None:
    assert list(in_threads(at, lambda _: current_thread(), [0])) == [current_thread()]


def test_threads_are_started_for_local_files_that_take_time(tmp_path: Path) -> None:
    def look(each: int) -> Thread:
        pausing(each)
        return current_thread()

    threads = list(in_threads(Storage.at(tmp_path), look, range(40)))
    assert threads[0] is current_thread()
    assert current_thread() not in threads[3:]


@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_no_more_inputs_are_taken_than_are_in_flight(at: Storage, pause: float) -> None:
    taken = 0

    def given() -> Iterator[int]:
        nonlocal taken
        for each in range(10_000):
            taken = each + 1
            yield each

    results = in_threads(at, lambda each: sleep(pause) or str(each), given())
    assert (next(results), next(results)) == ("0", "1")
    assert taken <= 257
    results.close()  # type: ignore[attr-defined]


def test_threads_run_in_the_context_of_the_caller(at: Storage) -> None:
    setting: ContextVar[str] = ContextVar("setting", default="theirs")
    setting.set("ours")
    assert set(in_threads(at, lambda each: (pausing(each), setting.get())[1], range(30))) == {"ours"}


def test_what_is_there_but_no_file_has_no_content(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    storage.write("file", b"x")
    found = {name: text_of(storage, name) for name in ("file", "none", "pipe")}
    assert found == {"file": b"x", "none": None, "pipe": b""}


def test_independent_requests_to_a_store_are_made_side_by_side() -> None:
    met = Barrier(3, timeout=20)
    with beside(STORE) as begin:
        begun = [begin(lambda: met.wait() is not None) for _ in range(2)]
        assert met.wait() is not None
        assert [each.result() for each in begun] == [True, True]
    assert together(STORE, *[lambda: met.wait() is not None] * 3) == [True] * 3


def test_on_a_disk_independent_requests_are_made_one_after_the_other(tmp_path: Path) -> None:
    asked: list[int] = []
    local = Storage.at(tmp_path)
    with beside(local) as begin:
        first = begin(lambda: asked.append(1) or current_thread())
        asked.append(2)
        assert first.result() is current_thread()
    assert together(local, lambda: asked.append(3), current_thread) == [None, current_thread()]
    assert asked == [1, 2, 3]


def test_a_request_that_fails_beside_a_block_fails_the_block(at: Storage) -> None:
    ended: list[str] = []

    def fail() -> None:
        raise ValueError("beside")

    def run(error: Exception | None) -> None:
        with beside(at) as begin:
            if error is None:
                begin(fail)
            begin(lambda: ended.append("other"))
            if error is not None:
                raise error

    with pytest.raises(ValueError, match="beside"):
        run(None)
    assert ended == ([] if at.is_local else ["other"])
    ended.clear()
    with pytest.raises(KeyError, match="block"):
        run(KeyError("block"))
    assert ended == ["other"]
    with pytest.raises(ValueError, match="beside"):
        together(at, fail, lambda: ended.append("last"))


def test_requests_beside_a_block_run_in_its_context(at: Storage) -> None:
    variable: ContextVar[str] = ContextVar("beside", default="none")
    variable.set("given")
    with beside(at) as begin:
        assert begin(variable.get).result() == "given"
    assert together(at, variable.get, variable.get) == ["given"] * 2
