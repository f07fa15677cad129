"""How far a stage is, said in the task log while it runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import Accumulator, SparkContext

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0


@contextmanager
def reported(
    context: SparkContext, what: str, *, tasks: int, rows: int | None, done: Accumulator[int]
) -> Iterator[None]:
    """Log the progress of the Spark work in the block: tasks done of how many, rows per second, time left.

    Parameters
    ----------
    context : SparkContext
    what : str
        What a task is called in the log, say "partitions of the source".
    tasks : int
        Tasks in the stage that does the counting.
    rows : int or None
        Rows that the stage will have handled at its end; None if that is what it finds out.
    done : Accumulator
        Rows handled so far; the tasks add to it.
    """
    stop = threading.Event()
    start = time.monotonic()

    def watch() -> None:
        while not stop.wait(INTERVAL_SECONDS):
            log.info("%s", _line(context, what, tasks, rows, done.value, time.monotonic() - start))

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


def _line(context: SparkContext, what: str, tasks: int, rows: int | None, done: int, seconds: float) -> str:
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    active = [stage for stage in stages if stage is not None]
    counted = ", ".join(f"stage {s.stageId}: {s.numCompletedTasks} of {s.numTasks} tasks" for s in active)
    line = f"{what}: {counted or 'starting'}; {done} rows, {done / seconds:.0f} rows/s"
    if rows and done:
        line += f", {done / rows:.0%}, about {seconds * (rows - done) / done:.0f} s left"
    return line
