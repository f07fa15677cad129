"""Requests to stores that are under way side by side, as most of their time is waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import groupby
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from hipslake.storage.folder import Storage
from hipslake.storage.request_loop import MOST_REQUESTS, AsyncAsk, begin_on_loop

Answer = TypeVar("Answer")


class AskedRange(NamedTuple):
    """Bytes [start, stop) of a file."""

    storage: Storage
    path: str
    start: int
    stop: int


class RequestPool:
    """Asks stores side by side: ranges of S3 up to 128 at once, and what else there is in up to 128 threads.

    All is asked in the caller's context, which holds the credentials of stores. A block that ends by an
    exception gives up what has not ended, but for threads that wait for an answer; else all goes on.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_REQUESTS, thread_name_prefix="request")
        self._at_once = asyncio.Semaphore(MOST_REQUESTS)
        self._on_loop: set[Future[Any]] = set()

    def submit(self, ask: Callable[..., Answer], *given: Any) -> Future[Answer]:
        """Begin to ask, in a thread."""
        return self._threads.submit(copy_context().run, ask, *given)

    def ranges(self, asked: Sequence[AskedRange]) -> list[Future[Any]]:
        """Begin to fetch ranges of files, all together.

        Parameters
        ----------
        asked : sequence of AskedRange

        Returns
        -------
        list of Future
            Of what `Storage.range_buffer` gives for each, with its errors.

        Raises
        ------
        StorageError
            It is not known how a store is to be asked: there are no credentials.
        """
        asks: list[AsyncAsk | None] = []
        for _, group in groupby(asked, lambda each: id(each.storage)):
            some = list(group)
            asks += some[0].storage.awaited_ranges([each[1:] for each in some])
        begun = iter(begin_on_loop([self._limited(ask) for ask in asks if ask is not None]))
        return [
            self.submit(each.storage.range_buffer, *each[1:]) if ask is None else self._noted(next(begun))
            for each, ask in zip(asked, asks, strict=True)
        ]

    def _limited(self, ask: AsyncAsk) -> AsyncAsk:
        async def limited() -> Any:
            async with self._at_once:
                return await ask()

        return limited

    def _noted(self, future: Future[Any]) -> Future[Any]:
        self._on_loop.add(future)
        future.add_done_callback(self._on_loop.discard)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=kind is not None)
        if kind is not None:
            for future in self._on_loop.copy():
                future.cancel()
