"""Real processes for tests: many that race, and one that is killed."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from typing import Any

FORK = multiprocessing.get_context("fork")  # inherits what a test has set up


def in_processes(task: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Run a task in one process per tuple of arguments, let go together; its results in that order."""
    with FORK.Pool(len(arguments), initializer=_wait, initargs=(FORK.Barrier(len(arguments)),)) as pool:
        return pool.starmap(task, arguments, chunksize=1)


def killed(task: Callable[[], object]) -> None:
    """Run a task in a process, which must die of SIGKILL before the task ends."""
    process = FORK.Process(target=task)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _wait(barrier: Any) -> None:
    barrier.wait()
