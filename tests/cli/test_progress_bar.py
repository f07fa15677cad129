"""The line of a terminal that says how far a run is."""

from __future__ import annotations

import io
import re

import pytest
from hipslake.cli.progress_bar import ProgressBar, shown_progress
from hipslake.engine.progress import reported, watched
from hipslake.steps.report import Report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Rows:
    """A counter that tasks have added to."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, term: int) -> None:
        self.value += term


def last_line(terminal: Terminal) -> str:
    return re.split(r"\r\x1b\[K|\n", terminal.getvalue())[-1]


@pytest.mark.parametrize(("done", "share", "filled"), [(0, "0%", 0), (500, "50%", 12), (2000, "100%", 24)])
def test_a_bar_is_as_full_as_the_work_is_done(
    monkeypatch: pytest.MonkeyPatch, done: int, share: str, filled: int
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    bar = ProgressBar(terminal)
    bar.told("write", None)
    bar.look("write", done, 1000)
    line = last_line(terminal)
    assert line.startswith("  write")
    assert line.count("█") == filled
    assert share in line
    assert f"{done:,} of 1,000 rows" in line


def test_lines_are_no_longer_than_the_terminal_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    bar = ProgressBar(terminal)
    bar.told("histogram", None)
    bar.look("histogram", 123_456_789, 987_654_321)
    assert len(last_line(terminal)) == 39


def test_a_step_that_has_ended_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    bar = ProgressBar(terminal)
    bar.told("write", None)
    bar.told("write", Report(step="write", rows_out=1234))
    bar.look("write", 5, 10)  # a thread that comes late
    assert last_line(terminal) == ""
    assert re.search(r"write +\d+\.\d s +1,234 rows\n$", terminal.getvalue())


def test_what_is_no_terminal_is_left_alone() -> None:
    stream = io.StringIO()
    with shown_progress(stream) as told, reported("write", rows=5, done=Rows(5), stages=list):
        assert told is None
    assert stream.getvalue() == ""


def test_work_is_looked_at_while_it_is_done() -> None:
    import threading

    seen: list[tuple[str, int, int | None]] = []
    enough = threading.Event()

    def look(what: str, done: int, total: int | None) -> None:
        seen.append((what, done, total))
        if len(seen) >= 3:
            enough.set()

    with watched(look, 0.01), reported("write", rows=7, done=Rows(3), stages=list):
        assert enough.wait(10)
    assert set(seen) == {("write", 3, 7)}
    count = len(seen)
    with reported("write", rows=7, done=Rows(3), stages=list):
        enough.wait(0.05)
    assert len(seen) == count
