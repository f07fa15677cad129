"""How far a long piece of work is, said in the task log while it runs: done of how much, rate, time left."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from hipslake.engine.model import Counter, Stage

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 10.0

Clock = Callable[[], float]


class Watcher(NamedTuple):
    """Somebody who looks at work while it is done."""

    look: Callable[
        [str, int, int | None], None
    ]  # takes what is done, how many rows are, and will be at the end
    seconds: float  # between two looks


_watchers: list[Watcher] = []


class Progress:
    """Says how far some work is, at most once in an interval.

    The rate counts from the last look that found nothing done: what came before (Spark that starts, a stage
    that only routes rows) would make the time left look longer than it is.

    Parameters
    ----------
    what : str
        What is being done, say "write".
    total : int, optional
        What will be done at the end; None if that is what the work finds out.
    unit : str
        What is counted.
    clock : callable
        Seconds since any moment.
    interval : float
        Seconds between two lines, at least.
    say : callable
        Takes a line.

    Examples
    --------
    >>> seconds = iter([0.0, 10.0, 20.0, 30.0])
    >>> progress = Progress("write", total=3000, clock=lambda: next(seconds), say=print)
    >>> progress.tell(500)
    write: 500 of 3,000 rows (17%), 50 rows/s, about 50 s left
    >>> progress.tell(1500, [Stage("stage 3", 2, 4)])
    write: 1,500 of 3,000 rows (50%), 75 rows/s, about 20 s left; stage 3: 2 of 4 tasks
    >>> progress.end(3000)
    write: 3,000 rows in 30.0 s, 100 rows/s
    """

    def __init__(
        self,
        what: str,
        *,
        total: int | None = None,
        unit: str = "rows",
        clock: Clock = time.monotonic,
        interval: float = INTERVAL_SECONDS,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._clock, self._interval = clock, interval
        self._say = say or (lambda line: log.info("%s", line))
        self._start = self._said = self._looked = clock()
        self._idle = self._start
        self._stages: dict[str, float] = {}  # when none of its tasks was done, at the last

    def tell(self, done: int, stages: Sequence[Stage] = ()) -> None:
        """Say how far the work is, if the last line is old enough.

        Parameters
        ----------
        done : int
            Of the total.
        stages : sequence of Stage
            What is being worked on, where tasks do it.
        """
        now = self._clock()
        if done <= 0:
            self._idle = now
        for stage in stages:
            self._stages.setdefault(stage.name, self._looked)
            if stage.done == 0:
                self._stages[stage.name] = now
        self._looked = now
        if now - self._said < self._interval:
            return
        self._said = now
        own = self._of_all(done, now)
        # What the whole still takes is known better than what a stage of it takes.
        parts = [self._of_stage(stage, now, alone=self._total is None or done <= 0) for stage in stages]
        self._say(f"{self._what}: {'; '.join([*own, *parts]) or 'starting'}")

    def end(self, done: int) -> None:
        """Say how much was done, and how fast."""
        seconds = max(self._clock() - self._start, 1e-9)
        counted = f"{done:,} {self._unit} in " if done > 0 else ""
        rate = f", {done / seconds:,.0f} {self._unit}/s" if done > 0 else ""
        self._say(f"{self._what}: {counted}{seconds:.1f} s{rate}")

    def _of_all(self, done: int, now: float) -> list[str]:
        if done <= 0:
            return []
        rate = done / max(now - self._idle, 1e-9)
        told = f"{rate:,.0f} {self._unit}/s"
        if not self._total:
            return [f"{done:,} {self._unit}, {told}"]
        left = max(self._total - done, 0)
        share = min(done / self._total, 1.0)
        return [f"{done:,} of {self._total:,} {self._unit} ({share:.0%}), {told}, {_left(left / rate)}"]

    def _of_stage(self, stage: Stage, now: float, *, alone: bool) -> str:
        told = f"{stage.done:,} of {stage.tasks:,} tasks"
        told = f"{stage.name}: {told}" if stage.name else told
        seconds = now - self._stages[stage.name]
        if not alone or stage.done == 0 or seconds <= 0:
            return told
        return f"{told}, {_left((stage.tasks - stage.done) * seconds / stage.done)}"


@contextmanager
def reported(
    what: str,
    *,
    rows: int | None,
    done: Counter | None,
    stages: Callable[[], Sequence[Stage]],
) -> Iterator[None]:
    """Log the progress of the work in the block, by a thread that looks at it from time to time.

    Parameters
    ----------
    what : str
        What is being done, say "histogram".
    rows : int or None
        Rows that the tasks will have handled at the end; None if that is what they find out.
    done : Counter or None
        Rows handled so far; the tasks add to it. None: only tasks are counted.
    stages : callable
        Says which tasks are done; none before the first has started.
    """
    stop = threading.Event()
    progress = Progress(what, total=rows)

    def so_far() -> int:
        return done.value if done is not None else 0

    watchers = tuple(_watchers)
    seconds = min([INTERVAL_SECONDS, *(each.seconds for each in watchers)])

    def watch() -> None:
        while not stop.wait(seconds):
            for each in watchers:
                each.look(what, so_far(), rows)
            progress.tell(so_far(), stages())

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    progress.end(so_far())


@contextmanager
def watched(look: Callable[[str, int, int | None], None], seconds: float = 0.2) -> Iterator[None]:
    """Let somebody look at all work that begins in the block, in the process that has started it.

    Parameters
    ----------
    look : callable
        Called by other threads with what is being done, say "write", how many rows are done, and how many
        will be at the end (None if that is what the work finds out).
    seconds : float
        Between two looks.
    """
    watcher = Watcher(look, seconds)
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def _left(seconds: float) -> str:
    if seconds < 120:
        return f"about {seconds:.0f} s left"
    if seconds < 7200:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"
