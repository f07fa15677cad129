"""Threads that wait for stores, in calls which signals and deadlines cannot interrupt."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

Found = TypeVar("Found")
_idle: list[_Waiter] = []  # of this process
_process = os.getpid()


class _Waiter:
    """A thread that does one call after the other; it does not keep the process from ending."""

    def __init__(self) -> None:
        self._given: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        threading.Thread(target=self._work, name="hipslake-store", daemon=True).start()

    def begin(self, call: Callable[[], Found]) -> Future[Found]:
        future: Future[Found] = Future()
        self._given.put((future, call))
        return future

    def _work(self) -> None:
        while True:
            future, call = self._given.get()
            try:
                found, error = call(), None
            except BaseException as raised:
                found, error = None, raised
            _idle.append(self)
            if error is None:
                future.set_result(found)
            else:
                future.set_exception(error)
            del future, call, found, error  # nothing is kept while it is idle


def begin(call: Callable[[], Found]) -> Future[Found]:
    """Let a call run in a thread, in the context of the caller."""
    global _process
    if _process != os.getpid():  # no thread comes through a fork
        _process = os.getpid()
        _idle.clear()
    try:
        waiter = _idle.pop()
    except IndexError:
        waiter = _Waiter()
    context = copy_context()
    return waiter.begin(lambda: context.run(call))


def each_beside(calls: Sequence[Callable[[], Found]], at_once: int, stopped: threading.Event) -> list[Found]:
    """The results of calls, of which some run at the same time, in order.

    Parameters
    ----------
    calls : sequence of callable
    at_once : int
    stopped : threading.Event
        Once it is set, no other call is begun.

    Raises
    ------
    Exception
        Of a call that failed, when those that were under way have ended. No others are begun.
    """
    results: list[Any] = [None] * len(calls)
    todo = iter(enumerate(calls))
    lock = threading.Lock()

    def work() -> None:
        while not stopped.is_set():
            with lock:
                number, call = next(todo, (None, None))
            if number is None or call is None:
                return
            try:
                results[number] = call()
            except BaseException:
                stopped.set()
                raise

    working = [begin(work) for _ in range(min(at_once, len(calls)))]
    wait(working)
    for each in working:
        each.result()
    return results
