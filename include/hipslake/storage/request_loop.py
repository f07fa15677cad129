"""An event loop in a thread of its own, on which requests to stores wait: many begin in a few milliseconds.

A thread for each would take as long to start as a near store takes to answer.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

MOST_REQUESTS = 128
"""That one reader has under way at once."""

AsyncAsk = Callable[[], Coroutine[Any, Any, Any]]
"""Asks a store, on an event loop."""

_LAST_SECONDS = 5.0  # that requests may take to end when the process does
# The threads of obstore's runtime touch Python once more after a request has ended, or was cancelled: a
# process that is ending by then would be aborted.
_GRACE_SECONDS = 0.05


class RequestLoop:
    """The loop; its thread does not keep the process from ending."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended_at = 0.0
        self._is_ending = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="hipslake-requests", daemon=True)
        self._thread.start()

    def begin(self, asks: Sequence[AsyncAsk]) -> list[Future[Any]]:
        """Begin to ask, in a copy of the caller's context; a future that is cancelled ends its request."""
        futures: list[Future[Any]] = [Future() for _ in asks]
        context = copy_context()

        def start() -> None:
            for ask, future in zip(asks, futures, strict=True):
                self._start(ask, future, context)

        self._loop.call_soon_threadsafe(start)
        return futures

    def end(self) -> None:
        """Cancel all requests, and wait until they have ended; later ones are cancelled at once."""
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._give_up_all(), self._loop).result(2 * _LAST_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LAST_SECONDS)
        time.sleep(max(0.0, self._ended_at + _GRACE_SECONDS - time.monotonic()))

    def _start(self, ask: AsyncAsk, future: Future[Any], context: Context) -> None:
        if self._is_ending:
            future.cancel()
        if future.cancelled():
            return
        task = self._loop.create_task(ask(), context=context)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._settle(task, future))
        future.add_done_callback(lambda future: self._give_up(task) if future.cancelled() else None)

    def _settle(self, task: asyncio.Task[Any], future: Future[Any]) -> None:
        self._ended_at = time.monotonic()
        self._tasks.discard(task)
        if task.cancelled():
            future.cancel()
            return
        error = task.exception()  # also if nobody waits for it: then asyncio has nothing to tell of it
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(task.result())
        else:
            future.set_exception(error)

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        if not task.done():
            self._loop.call_soon_threadsafe(task.cancel)

    async def _give_up_all(self) -> None:
        self._is_ending = True
        tasks = self._tasks.copy()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_SECONDS)


_LOCK = threading.Lock()
_process: int | None = None  # whose loop it is: no thread comes through a fork
_running: RequestLoop | None = None


def begin_on_loop(asks: Sequence[AsyncAsk]) -> list[Future[Any]]:
    """Begin requests on the loop of this process, as of `RequestLoop.begin`."""
    global _process, _running
    if not asks:
        return []
    with _LOCK:
        if _running is None or _process != os.getpid():
            _process, _running = os.getpid(), RequestLoop()
        loop = _running
    return loop.begin(asks)


def _renew_lock() -> None:
    """In a process that was forked while another thread held it."""
    global _LOCK
    _LOCK = threading.Lock()


def _end() -> None:
    global _running
    with _LOCK:
        ending, _running = _running, None  # whoever asks later has another loop
    if ending is not None and _process == os.getpid():
        ending.end()


os.register_at_fork(after_in_child=_renew_lock)
atexit.register(_end)
