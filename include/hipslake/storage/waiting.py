"""fsspec's clients under the limits of `hipslake.storage.timeouts`.

Each call of a client becomes one operation on the client's event loop. An operation that exceeds its time is
cancelled there, so that neither a thread nor a connection goes on waiting.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any

import aiohttp

from hipslake.storage.operation import Operation, UnansweredError
from hipslake.storage.timeouts import deadline, timeouts

S3 = ("s3", "s3a")
HTTP = ("http", "https")
_SILENT_BODY = "AioReadTimeoutError"  # of aiobotocore, which is not imported for other stores
_CANCELLING = 5.0  # seconds that a cancelled operation may take to close its connections


_OPERATION: ContextVar[Operation | None] = ContextVar("operation", default=None)


class WaitingFiles:
    """A file system of fsspec whose methods keep the limits.

    Parameters
    ----------
    files : fsspec.AbstractFileSystem
        A client that keeps the limits of single requests: see `HTTP_TRACES`, `hipslake.storage.s3_session`.
    protocol : str
        Of the store. For stores other than S3 and web servers only a deadline ends an operation, as their
        clients do not report the answers to single requests.
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
        operation = Operation(timeouts(), deadline(), limited=self._limited)
        if operation.end.left() <= 0:
            raise TimeoutError(operation.text())
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


async def _ended(asking: Coroutine[Any, Any, Any], operation: Operation) -> Any:
    """The result of an operation, which is cancelled when no time is left."""
    task = asyncio.ensure_future(asking)
    try:
        while not task.done() and (left := operation.left()) > 0:
            await asyncio.wait({task}, timeout=left if left < math.inf else None)
        if task.done():
            return task.result()
    except Exception as error:
        if (text := _timeout_in(error, operation)) is None:
            raise
        raise TimeoutError(text) from error
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCELLING)
    raise TimeoutError(operation.text())


def _timeout_in(error: Exception, operation: Operation) -> str | None:
    """The message for an error that is, or was caused by, an exceeded limit; None for other errors."""
    for one in (error, error.__cause__):
        if isinstance(one, UnansweredError):
            return str(one)
        if isinstance(one, aiohttp.ConnectionTimeoutError):
            return operation.no_connection()
        if isinstance(one, aiohttp.SocketTimeoutError) or type(one).__name__ == _SILENT_BODY:
            return operation.silence()
        if isinstance(one, asyncio.TimeoutError):
            return operation.text()
    return None


def client_timeout() -> aiohttp.ClientTimeout:
    """The limits in force, for aiohttp."""
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
