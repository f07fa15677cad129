"""A run that drains a stream, in a process that dies: `-m tests.system.dying_drain RUN_URI MOMENT AFTER`.

It dies at a moment of its AFTER-th batch (from 0), with Spark's JVM and all workers, as a machine that loses
its power does.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from hipslake.spark.engine import SparkEngine
from hipslake.spark.session import open_session
from hipslake.steps.stream import run as draining
from hipslake.steps.stream.request import DrainRequest
from hipslake.tables.iceberg import commit as committing

MOMENTS = ("written", "committed", "handed back", "noted")
"""Files are written; the commit stands; Spark does not know it yet; Spark notes it, or is at what follows."""
_LONGEST = 0.15  # seconds from the end of a batch to the kill


def die() -> None:
    """End this process and all that it started."""
    os.killpg(0, signal.SIGKILL)


def die_at(moment: str, after: int) -> None:
    """Have this process die at a moment of a batch."""
    once, take = committing._commit_once, draining._Drain.take
    left = [after]

    def commit(*arguments: Any) -> None:
        if moment == "written" and left[0] == 0:
            die()
        once(*arguments)
        if moment == "committed" and left[0] == 0:
            die()

    def taken(drain: Any, number: int, checkpoint: str, paths: Callable[[], list[str]]) -> None:
        take(drain, number, checkpoint, paths)
        if left[0] == 0 and moment == "handed back":
            die()
        if left[0] == 0 and moment == "noted":
            threading.Thread(target=die_soon, daemon=True).start()
        left[0] -= 1

    committing._commit_once = commit
    draining._Drain.take = taken  # type: ignore[method-assign]


def die_soon() -> None:
    """Die after a while of chance."""
    time.sleep(random.uniform(0, _LONGEST))
    die()


def main(run_uri: str, moment: str, after: str) -> None:
    """Drain."""
    if moment:
        die_at(moment, int(after))
    report = draining.run(DrainRequest(run_uri=run_uri), SparkEngine(open_session("dying drain")))
    print(f"{report.batches} batches were sunk, {report.found} were found sunk")


if __name__ == "__main__":
    main(*sys.argv[1:])
