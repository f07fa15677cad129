"""A thread pool for requests to stores, so that a store that does not answer blocks no other threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hipslake.storage.timeouts import Deadline

Result = TypeVar("Result")

_KEPT = 0.8  # of the time that there is, what the work itself may take, so that it can still tell its reason


class BoundedPool:
    """A thread pool of bounded size, whose queue is bounded too.

    A thread counts as busy until its work has ended, also after the caller has stopped waiting for it. Unlike
    those of a `ThreadPoolExecutor`, the threads do not delay the end of the process.

    Parameters
    ----------
    threads : int
    waiting : int
        Size of the queue; further calls are refused at once.
    name : str
        Prefix of the names of the threads.
    """

    def __init__(self, threads: int, waiting: int, name: str) -> None:
        self._threads, self._name = threads, name
        self._most = threads + waiting
        self._taken = self._started = 0
        self._lock = threading.Lock()
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    @property
    def taken(self) -> int:
        """How many calls are running or queued."""
        return self._taken

    async def run(self, work: Callable[[], Result], end: Deadline) -> Result:
        """Run `work` in a thread of the pool, with the caller's context variables, and return its result.

        Requests to stores and catalogs in `work` time out shortly before the deadline.

        Raises
        ------
        StoreTimeoutError
            It was not done by then, or no thread was free.
        """
        from hipslake.errors import StoreTimeoutError
        from hipslake.storage.timeouts import Deadline, within

        with self._lock:
            if self._taken >= self._most:
                raise StoreTimeoutError(
                    f"{self._taken} others wait for stores and catalogs already; try again later"
                )
            self._taken += 1
        context, given_up = contextvars.copy_context(), threading.Event()
        sooner = Deadline(end.at - (1 - _KEPT) * end.seconds, end.seconds * _KEPT, end.setting)

        def limited() -> Result | None:
            if given_up.is_set():  # while it waited for a thread
                return None
            with within(sooner):
                return work()

        try:
            future = self._submit(lambda: context.run(limited))
        except BaseException:  # there can be no more threads
            self._free(None)
            raise
        future.add_done_callback(self._free)
        waiting = asyncio.wrap_future(future)
        waiting.add_done_callback(_take_note)
        try:
            done, _ = await asyncio.wait({waiting}, timeout=max(0.0, end.at - time.monotonic()))
        finally:
            given_up.set()
        if not done:
            raise StoreTimeoutError(f"a store or catalog gave {end.text()}; look whether it runs, then retry")
        return waiting.result()  # type: ignore[return-value]

    def _submit(self, work: Callable[[], Result]) -> Future[Result]:
        with self._lock:
            if self._started < self._threads:
                name = f"{self._name}_{self._started}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
                self._started += 1
        future: Future[Result] = Future()
        self._queue.put((future, work))
        return future

    def _work(self) -> None:
        while True:
            future, work = self._queue.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del future, work  # else the last outcome is kept until the next work comes

    def _free(self, _: object) -> None:
        with self._lock:
            self._taken -= 1


def _take_note(future: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a future that is no longer awaited, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
