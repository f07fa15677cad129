"""Looking at many small files in threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from threading import Barrier, current_thread

import pytest
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads, text_of


@pytest.mark.parametrize("number", [0, 1, 2, 3, 16, 17, 255, 256, 257, 1000])
def test_results_come_in_the_order_of_the_inputs(number: int) -> None:
    assert list(in_threads(str, range(number))) == [str(each) for each in range(number)]


@pytest.mark.parametrize("failing", [0, 1, 3, 40, 255, 299])
def test_an_error_comes_after_the_results_of_the_inputs_before_it(failing: int) -> None:
    def look(each: int) -> int:
        if each >= failing:
            raise ValueError(each)
        return each

    found = []
    with pytest.raises(ValueError, match=f"^{failing}$"):
        found.extend(each for each in in_threads(look, range(300)))
    assert found == list(range(failing))


def test_few_are_looked_at_side_by_side() -> None:
    together = Barrier(3, timeout=20)
    assert list(in_threads(lambda each: together.wait() is not None, range(3))) == [True] * 3


def test_one_is_looked_at_without_threads() -> None:
    assert list(in_threads(lambda _: current_thread(), [0])) == [current_thread()]


def test_no_more_inputs_are_taken_than_are_in_flight() -> None:
    taken = 0

    def given() -> Iterator[int]:
        nonlocal taken
        for each in range(10_000):
            taken = each + 1
            yield each

    results = in_threads(str, given())
    assert next(results) == "0"
    assert taken <= 256
    results.close()  # type: ignore[attr-defined]


def test_threads_run_in_the_context_of_the_caller() -> None:
    setting: ContextVar[str] = ContextVar("setting", default="theirs")
    setting.set("ours")
    assert set(in_threads(lambda _: setting.get(), range(20))) == {"ours"}


def test_what_is_there_but_no_file_has_no_content(tmp_path: Path) -> None:
    storage = Storage.at(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    storage.write("file", b"x")
    found = {name: text_of(storage, name) for name in ("file", "none", "pipe")}
    assert found == {"file": b"x", "none": None, "pipe": b""}
