"""How far the tasks of a step are, said in the task log while they run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hipslake.engine.model import Counter

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0


@contextmanager
def reported(
    what: str, *, tasks: int, rows: int | None, done: Counter, stages: Callable[[], str]
) -> Iterator[None]:
    """Log the progress of the work in the block: tasks done of how many, rows per second, time left.

    Parameters
    ----------
    what : str
        What is being done, say "histogram".
    tasks : int
        Tasks that do the counting.
    rows : int or None
        Rows that they will have handled at the end; None if that is what they find out.
    done : Counter
        Rows handled so far; the tasks add to it.
    stages : callable
        Says how many tasks are done, "" before the first has started.
    """
    stop = threading.Event()
    start = time.monotonic()

    def watch() -> None:
        while not stop.wait(INTERVAL_SECONDS):
            log.info("%s", _line(what, stages(), rows, done.value, time.monotonic() - start))

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    seconds = max(time.monotonic() - start, 1e-9)
    log.info(
        "%s: %d tasks done, %d rows in %.1f s, %.0f rows/s",
        what,
        tasks,
        done.value,
        seconds,
        done.value / seconds,
    )


def _line(what: str, stages: str, rows: int | None, done: int, seconds: float) -> str:
    line = f"{what}: {stages or 'starting'}; {done} rows, {done / seconds:.0f} rows/s"
    if rows and done:
        line += f", {done / rows:.0%}, about {seconds * (rows - done) / done:.0f} s left"
    return line
