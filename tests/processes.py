"""Real processes for tests: many that race, and one that is killed."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections.abc import Callable
from typing import Any

FORK = multiprocessing.get_context("fork")  # inherits what a test has set up


def in_processes(task: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Run a task in one process per tuple of arguments, let go together; its results in that order."""
    pool = FORK.Pool(len(arguments), initializer=_ready, initargs=(FORK.Barrier(len(arguments)),))
    try:
        return pool.starmap(task, arguments, chunksize=1)
    finally:
        pool.close()
        pool.join()


def obey_permissions() -> None:
    """Have this process meet permissions as its user would, also where that is root, who is above them.

    To be called in a process of a test's own: the capability (`CAP_DAC_OVERRIDE`) does not come back.
    """
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the call, this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, sets) == 0
    sets[0] &= ~(1 << 1)
    assert libc.capset(header, sets) == 0


def killed(task: Callable[[], object]) -> None:
    """Run a task in a process, which must die of SIGKILL before the task ends."""
    process = FORK.Process(target=task)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _ready(barrier: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # other tests leave handlers in the process that is forked
    barrier.wait()
