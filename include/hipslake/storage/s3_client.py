"""Requests to the bucket of an S3 store through obstore, whose runtime in Rust does the work.

A request that failed is sent again here, not there: so a name that is created is asked for again also after a
lost answer, and each silence counts. Only parts of an upload that is under way are sent again by obstore.
"""

from __future__ import annotations

import asyncio
import functools
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import obstore
from obstore.exceptions import UnauthenticatedError
from obstore.store import S3Store

from hipslake.storage.backoff import pause_after
from hipslake.storage.operation import Operation, UnansweredError
from hipslake.storage.s3_answers import CLIENT_ERRORS, FailedRequest, failure_in
from hipslake.storage.s3_settings import S3Settings
from hipslake.storage.store_threads import begin, each_beside
from hipslake.storage.timeouts import Deadline, Timeouts, deadline, timeouts

AT_ONCE = 32
"""Requests that are under way at the same time for one call."""

_SMALL = 1 << 20  # bytes whose sending takes no time worth naming
_CLIENTS = 64  # that are kept, with their connections
_MORE_OF_LOST = (
    2  # so many times more tries where answers are lost than where a store refuses or is not there
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 20.0  # seconds before a request is sent again

Found = TypeVar("Found")
Store = Any
Request = Callable[[Store], Found]
AsyncRequest = Callable[[Store], Awaitable[Found]]


class RedirectedError(Exception):
    """The bucket lies in another region than was asked."""


class S3Client:
    """The clients of one bucket, under some limits.

    Attributes
    ----------
    reading, writing : obstore.store.S3Store
        The latter waits for an answer as long as a request may take, as obstore's wait for the first byte of
        an answer begins before the content is sent.
    uploading : obstore.store.S3Store
        For uploads in parts, which it sends again by itself.
    """

    def __init__(self, settings: S3Settings, bucket: str, limits: Timeouts) -> None:
        self._settings, self.bucket, self._limits = settings, bucket, limits
        endpoint, virtual = settings.address(bucket)
        unsigned = endpoint.startswith("https://")  # as botocore does: TLS guards the content
        seconds = timedelta(seconds=limits.request)
        config: Any = {
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,  # else obstore heeds the variable of that name
            "region": settings.region,
            "virtual_hosted_style_request": virtual,
            "skip_signature": settings.keys is None,
            "unsigned_payload": unsigned,
            "conditional_put": "etag",
            "request_payer": False,
            "s3_express": False,
        }
        http: Any = {
            "allow_http": True,
            "connect_timeout": timedelta(seconds=limits.connect),
            "timeout": seconds,
        }
        if settings.authorities:
            http["root_certificate"] = _certificates(settings.authorities)
        keys: Any = settings.keys

        def store(tries: int, more: Any) -> Store:
            return S3Store(
                bucket,
                config=config,
                client_options=http | more,
                retry_config={"max_retries": tries - 1, "retry_timeout": seconds},
                credential_provider=keys,
            )

        self.reading = store(1, {"read_timeout": timedelta(seconds=limits.read)})
        self.writing = store(1, {})
        self.uploading = store(settings.attempts, {})

    def ask(self, request: Request[Found], *, sends: int = 0) -> Found:
        """The answer to a request.

        Parameters
        ----------
        request : callable
            Makes it through a store.
        sends : int
            Bytes of content that it sends.

        Raises
        ------
        OSError
            Also `FileNotFoundError` and `PermissionError`; `TimeoutError` if no answer came.
        RedirectedError
        """
        store = self._for(sends)
        return _interruptible(lambda: self._answered(request, store))

    def ask_all(self, requests: Sequence[Request[Found]], *, sends: int = 0) -> list[Found]:
        """The answers to requests that are sent side by side, in order; of several errors, one is raised.

        `sends`: the most bytes of content that one of them sends.
        """
        store = self._for(sends)
        if len(requests) < 2:
            return [self.ask(request, sends=sends) for request in requests]
        calls = [functools.partial(self._answered, request, store) for request in requests]
        stopped = threading.Event()
        return _interruptible(lambda: each_beside(calls, AT_ONCE, stopped), stopped)

    def _for(self, sends: int) -> Store:
        """The store for a request that sends some bytes."""
        return self.reading if sends <= _SMALL else self.writing

    async def answer(self, request: AsyncRequest[Found]) -> Found:
        """The answer to a request that an event loop waits for; of many, see `request_loop`.

        Parameters
        ----------
        request : callable
            Makes it through a store, and sends no content worth naming.

        Raises
        ------
        OSError, RedirectedError
            As of `ask`.
        """
        tries, end = _Tries(self, self._limits), deadline()
        try:
            async with asyncio.timeout(None if end.left() == math.inf else end.left()) as limit:
                while True:
                    tries.begin()
                    try:
                        return await request(self.reading)
                    except CLIENT_ERRORS as error:
                        pause = tries.pause_after(error)
                    await asyncio.sleep(pause)
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(end.text()) from None
            raise

    def _answered(self, request: Request[Found], store: Store) -> Found:
        tries = _Tries(self, self._limits)
        while True:
            tries.begin()
            try:
                return request(store)
            except CLIENT_ERRORS as error:
                pause = tries.pause_after(error)
            time.sleep(pause)

    @property
    def attempts(self) -> int:
        """Times that a request which failed is sent in all."""
        return self._settings.attempts

    def failure(self, error: BaseException) -> FailedRequest:
        """What an error of obstore means; raises that of botocore if there are no keys, and of a redirect."""
        keys: Any = self._settings.keys
        if isinstance(error, UnauthenticatedError) and keys is not None and keys.failed is not None:
            raise keys.failed
        failure = failure_in(error)
        if failure.elsewhere and self._settings.endpoint is None:
            raise RedirectedError(f"{self.bucket} lies in another region; set its region") from failure.error
        return failure

    def upload(self, key: str, parts: Any, *, part_bytes: int, at_once: int) -> None:
        """Put an object in parts, which others see when the last one is there.

        Parameters
        ----------
        key : str
        parts : buffer or Iterator
            The content, or what gives it piece by piece; if it raises, there is no object.
        part_bytes : int
        at_once : int
            Parts that are sent side by side.
        """
        try:
            obstore.put(
                self.uploading, key, parts, use_multipart=True, chunk_size=part_bytes, max_concurrency=at_once
            )
        except CLIENT_ERRORS as error:
            failure = self.failure(error)
            if failure.silent:
                _give_up_silence(failure, self._limits.tries, self._limits.request, Operation(
                    self._limits, Deadline(), limited=True
                ))  # fmt: skip
            raise failure.error from failure.error.__cause__


class _Tries:
    """The tries of one request: whether it is sent again, and when."""

    def __init__(self, client: S3Client, limits: Timeouts) -> None:
        self._client = client
        self._operation = Operation(limits, deadline(), limited=True)
        self._operation.begin()
        self._failed = self._silent = 0
        self._began = 0.0

    def begin(self) -> None:
        """Note that the request is sent; raises `TimeoutError` if no time is left."""
        if self._operation.left() <= 0:
            raise TimeoutError(self._operation.text())
        self._began = time.monotonic()

    def pause_after(self, error: BaseException) -> float:
        """Seconds until the request is sent again; raises what an error of obstore means if it is not."""
        failure = self._client.failure(error)
        if failure.silent:
            self._silent += 1
            seconds = time.monotonic() - self._began if failure.seconds is None else failure.seconds
            _give_up_silence(failure, self._silent, seconds, self._operation)
            return 0.0
        self._failed += 1
        most = self._client.attempts * (_MORE_OF_LOST if failure.lost else 1)
        if not failure.passes or self._failed >= most:
            raise failure.error from failure.error.__cause__
        self._operation.answered()
        pause = pause_after(self._failed, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        return min(pause, self._operation.left())


def _interruptible(call: Callable[[], Found], stopped: threading.Event | None = None) -> Found:
    """What a call returns; signals and a deadline end the wait for it, and set `stopped`.

    The call itself then ends by its own limits, as obstore knows of neither.
    """
    end = deadline()
    if end.left() <= 0:
        raise TimeoutError(end.text())
    if end.left() == math.inf and threading.current_thread() is not threading.main_thread():
        return call()
    begun = begin(call)
    try:
        return begun.result(None if end.left() == math.inf else end.left())
    except TimeoutError:
        if not begun.done():
            raise TimeoutError(end.text()) from None
        raise
    finally:
        if stopped is not None and not begun.done():
            stopped.set()


def _certificates(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:  # not a missing object
        raise OSError(f"the certificates of AWS_CA_BUNDLE or ca_bundle cannot be read: {error}") from None


def _give_up_silence(failure: FailedRequest, silent: int, seconds: float, operation: Operation) -> None:
    """Raise `TimeoutError` if a request took all of its time, or was the last try."""
    try:
        if not failure.connected:
            operation.check_tries(silent, operation.no_connection())
        elif seconds >= operation.limits.request:
            raise UnansweredError(operation.text())
        else:
            operation.check_tries(silent, operation.silence())
    except UnansweredError as error:
        raise TimeoutError(str(error)) from failure.error


_LOCK = threading.Lock()
_KEPT: OrderedDict[tuple[Any, ...], S3Client] = OrderedDict()
_process: int | None = None  # in which obstore's runtime was started; its threads do not come through a fork


def is_usable() -> bool:
    """Whether obstore works in this process: not if it was forked from one that had used it."""
    return _process in (None, os.getpid())


def client_of(settings: S3Settings, bucket: str) -> S3Client:
    """The client of a bucket under the limits in force; it is kept, as are its connections."""
    global _process
    limits = timeouts()
    key = (settings, bucket, limits)
    with _LOCK:
        _process = os.getpid()
        client = _KEPT.pop(key, None) or S3Client(settings, bucket, limits)
        _KEPT[key] = client
        if len(_KEPT) > _CLIENTS:
            _KEPT.popitem(last=False)
    return client
