"""fsspec's clients, asked under the limits of `hipslake.storage.timeouts`.

Each call of a client becomes one operation on the client's event loop. When its time is over it is cancelled
there, so that neither a thread nor a connection is left waiting.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import time
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import aiohttp

from hipslake.storage.timeouts import CONNECT, READ, REQUEST, TRIES, Deadline, Timeouts, deadline, timeouts

S3 = ("s3", "s3a")
HTTP = ("http", "https")
_SILENT_BODY = "AioReadTimeoutError"  # of aiobotocore, which is not imported for other stores
_CANCELLING = 5.0  # seconds that a cancelled operation may take to close its connections


class _UnansweredError(Exception):
    """No client tries again after it, as they do after a `TimeoutError`."""


class _Operation:
    """What is known of a running operation: when a request of it was last answered, how many were not."""

    def __init__(self, limits: Timeouts, end: Deadline, *, limited: bool) -> None:
        self.limits, self.end = limits, end
        self._limited = limited
        self._answered = time.monotonic()
        self._silent = 0
        self._began = False

    def begin(self) -> None:
        """Note that a request is sent; making a client before the first does not count."""
        if not self._began:
            self._began, self._answered = True, time.monotonic()

    def answered(self) -> None:
        self._answered, self._silent = time.monotonic(), 0

    def count_silent(self, what: str) -> None:
        """Note a request that got no answer; raises if that was the last try."""
        self._silent += 1
        if self._silent >= self.limits.tries:
            times = f", {self._silent} times ({TRIES})" if self._silent > 1 else ""
            raise _UnansweredError(f"{what}{times}")

    def silence(self) -> str:
        return f"no byte came for {self.limits.read:g} s ({READ})"

    def no_connection(self) -> str:
        return f"no connection within {self.limits.connect:g} s ({CONNECT})"

    def left(self) -> float:
        """Seconds that it may go on without another answer."""
        request = self._answered + self.limits.request - time.monotonic() if self._limited else math.inf
        return max(0.0, min(request, self.end.left()))

    def told(self) -> str:
        if self.end.left() <= 0:
            return self.end.told()
        return f"a request was not answered to its end within {self.limits.request:g} s ({REQUEST})"


_OPERATION: ContextVar[_Operation | None] = ContextVar("operation", default=None)


class WaitingFiles:
    """A file system of fsspec whose methods end in time.

    Parameters
    ----------
    files : fsspec.AbstractFileSystem
        A client that keeps the limits of each request: see `HTTP_TRACES` and `hipslake.storage.s3_session`.
    protocol : str
        Of stores other than S3 and web servers only a deadline ends the waiting: their clients do not say
        when one of several requests was answered.
    """

    def __init__(self, files: Any, protocol: str) -> None:
        self._files = files
        self._limited = protocol in (*S3, *HTTP)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._files, name)
        ask = getattr(self._files, f"_{name}", None)
        if not getattr(self._files, "async_impl", False) or not inspect.iscoroutinefunction(ask):
            return value
        return functools.partial(self._run, ask)

    def _run(self, ask: Any, *args: Any, **kwargs: Any) -> Any:
        operation = _Operation(timeouts(), deadline(), limited=self._limited)
        if operation.end.left() <= 0:
            raise TimeoutError(operation.told())
        before = _OPERATION.set(operation)
        try:  # the loop runs it in a copy of this context
            future = asyncio.run_coroutine_threadsafe(
                _ended(ask(*args, **kwargs), operation), self._files.loop
            )
        finally:
            _OPERATION.reset(before)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupted thread leaves nothing behind
            raise


async def _ended(asking: Coroutine[Any, Any, Any], operation: _Operation) -> Any:
    """The result of an operation, which is cancelled when its time is over."""
    task = asyncio.ensure_future(asking)
    try:
        while not task.done() and (left := operation.left()) > 0:
            await asyncio.wait({task}, timeout=left if left < math.inf else None)
        if task.done():
            return task.result()
    except Exception as error:
        if (told := _timeout_in(error, operation)) is None:
            raise
        raise TimeoutError(told) from error
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCELLING)
    raise TimeoutError(operation.told())


def _timeout_in(error: Exception, operation: _Operation) -> str | None:
    """What there is to say of an error if it is of a limit, or was made of such a one; None of others."""
    for one in (error, error.__cause__):
        if isinstance(one, _UnansweredError):
            return str(one)
        if isinstance(one, aiohttp.ConnectionTimeoutError):
            return operation.no_connection()
        if isinstance(one, aiohttp.SocketTimeoutError) or type(one).__name__ == _SILENT_BODY:
            return operation.silence()
        if isinstance(one, asyncio.TimeoutError):
            return operation.told()
    return None


def client_timeout() -> aiohttp.ClientTimeout:
    """The limits in force, in the words of aiohttp."""
    operation = _OPERATION.get()
    limits = operation.limits if operation is not None else timeouts()
    return aiohttp.ClientTimeout(
        total=limits.request, sock_connect=limits.connect, sock_read=limits.read, ceil_threshold=math.inf
    )


def note_request() -> None:
    """Note that the running operation sends a request."""
    if (operation := _OPERATION.get()) is not None:
        operation.begin()


def note_answer() -> None:
    """Note that a request of the running operation was answered."""
    if (operation := _OPERATION.get()) is not None:
        operation.answered()


def note_silence(*, connected: bool) -> None:
    """Note that a request of the running operation was not answered in time; it may end the operation."""
    if (operation := _OPERATION.get()) is not None:
        operation.count_silent(operation.silence() if connected else operation.no_connection())


async def _note_answer(*_: object) -> None:
    note_answer()


_TRACE = aiohttp.TraceConfig()
_TRACE.on_request_end.append(_note_answer)
HTTP_TRACES = [_TRACE]
