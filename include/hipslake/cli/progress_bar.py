"""What a run is doing, on a line of the terminal that is written again and again."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from hipslake.api.step_runner import Told
    from hipslake.steps.report import Report

_BAR = 24
_CLEAR = "\r\x1b[K"


class ProgressBar:
    """Draws the step that is being done, and how far it is; a line stays of each that is done.

    Parameters
    ----------
    stream : TextIO
        A terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._step, self._began = "", time.monotonic()

    def told(self, step: str, report: Report | None) -> None:
        """Take notice of a step that begins, or has ended."""
        if report is None:
            self._step, self._began = step, time.monotonic()
            self._draw(f"  {step} ...")
            return
        seconds = time.monotonic() - self._began
        rows = f"{report.rows_out:>14,} rows" if report.rows_out else ""
        self._step = ""
        self._stream.write(f"{_CLEAR}  {step:<12}{seconds:7.1f} s{rows}\n")
        self._stream.flush()

    def look(self, what: str, done: int, total: int | None) -> None:
        """Draw how far the step is; called by another thread."""
        if not self._step:
            return
        rate = done / max(time.monotonic() - self._began, 1e-9)
        if not total:
            counted = f"{done:,} rows, {rate:,.0f} rows/s" if done else "..."
            self._draw(f"  {self._step:<12}{counted}")
            return
        share = min(done / total, 1.0)
        filled = round(share * _BAR)
        bar = "█" * filled + "░" * (_BAR - filled)
        self._draw(f"  {self._step:<12}{bar} {share:4.0%}  {done:,} of {total:,} rows, {rate:,.0f} rows/s")

    def clear(self) -> None:
        """Leave an empty line."""
        self._stream.write(_CLEAR)
        self._stream.flush()

    def _draw(self, line: str) -> None:
        width = shutil.get_terminal_size().columns
        self._stream.write(_CLEAR + line[: max(width - 1, 20)])
        self._stream.flush()


@contextmanager
def shown_progress(stream: TextIO | None = None) -> Iterator[Told | None]:
    """Show the progress of a run in the block, if stderr is a terminal; gives what is to be told of steps."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield None
        return
    from hipslake.engine.progress import watched

    bar = ProgressBar(stream)
    with watched(bar.look):
        try:
            yield bar.told
        finally:
            bar.clear()
