"""Requests to stores that are under way side by side, as most of their time is waiting."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

MOST_REQUESTS = 128
"""That one reader has under way at once."""

Answer = TypeVar("Answer")


class RequestPool:
    """Runs functions that ask a store, each in a thread, and up to 128 at once.

    The threads run in the caller's context, which holds the credentials of stores. A block that ends by an
    exception gives up what has not begun; else it goes on.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_REQUESTS, thread_name_prefix="request")

    def submit(self, ask: Callable[..., Answer], *given: Any) -> Future[Answer]:
        """Begin to ask."""
        return self._threads.submit(copy_context().run, ask, *given)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=kind is not None)
