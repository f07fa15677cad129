"""An object that is sent to its store while it is written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import suppress
from queue import Full, Queue
from typing import Any

from hipslake.storage.s3_client import S3Client
from hipslake.storage.store_threads import begin
from hipslake.storage.timeouts import deadline

PART_BYTES = 16 << 20
"""Of a part of an object."""

MOST_BYTES = 10_000 * PART_BYTES
"""Of an object that is sent while it is written: a store takes ten thousand parts."""

_PARTS_AT_ONCE = 2
_LOOKING = 0.2  # seconds between two looks whether the upload has failed
_ABORTING = 3.0  # seconds that the store has to remove the parts of an object which is not to be


Buffer = bytearray | memoryview


class _GivenUpError(Exception):
    """The object is not to be."""


class ObjectWriter(io.RawIOBase):
    """A file to write from start to end, whose content goes to a store in parts while more is written.

    The object is there once `publish` returned, and not before; a small one is put in one request.

    Parameters
    ----------
    client : S3Client
    key : str
    put : callable
        Puts content in one request.
    """

    def __init__(self, client: S3Client, key: str, put: Callable[[Any], None]) -> None:
        super().__init__()
        self._client, self._key, self._put = client, key, put
        self._part, self._at = bytearray(), 0
        self._upload: _Upload | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any, /) -> int:
        content = memoryview(data).cast("B")
        if self.closed:
            raise ValueError("write to a closed file")
        self._at += len(content)
        if self._at > MOST_BYTES:
            raise OSError(
                f"the object has more than {MOST_BYTES >> 30} GiB, too much for one that is sent while it "
                "is written; write several files"
            )
        self._part += content
        if len(self._part) >= PART_BYTES:
            if self._upload is None:
                self._upload = _Upload(self._client, self._key)
            part, self._part = self._part, bytearray()
            self._upload.send(part)
        return len(content)

    def publish(self) -> None:
        """Send what is left, and let the object appear."""
        if self._upload is None:
            self._put(self._part)
            return
        if self._part:
            self._upload.send(self._part)
        self._upload.send(None)

    def give_up(self) -> None:
        """Let there be no object, and remove the parts that were sent."""
        if self._upload is not None:
            self._upload.give_up()


class _Upload:
    """An upload in parts that runs in a thread of its own."""

    def __init__(self, client: S3Client, key: str) -> None:
        self._waiting: Queue[Buffer | _GivenUpError | None] = Queue(1)
        self._running = begin(
            lambda: client.upload(key, self._parts(), part_bytes=PART_BYTES, at_once=_PARTS_AT_ONCE)
        )

    def send(self, part: Buffer | None) -> None:
        """Hand over a part, when there is room for it; None, and wait for the end, after the last one."""
        end = deadline()
        while not self._running.done():
            if end.left() <= 0:
                raise TimeoutError(end.text())
            with suppress(Full):
                self._waiting.put(part, timeout=_LOOKING)
                break
        while part is None and not self._running.done():
            if end.left() <= 0:
                raise TimeoutError(end.text())
            wait([self._running], min(end.left(), _LOOKING))
        if self._running.done():
            self._running.result()

    def give_up(self) -> None:
        """End it, and have the store remove what was sent, if that can be had soon."""
        if not self._running.done():
            with suppress(Full):
                self._waiting.put(_GivenUpError(), timeout=_ABORTING)
            wait([self._running], _ABORTING)

    def _parts(self) -> Iterator[Buffer]:
        while (part := self._waiting.get()) is not None:
            if isinstance(part, _GivenUpError):
                raise part
            yield part


def put_in_parts(client: S3Client, key: str, content: memoryview) -> None:
    """Put a large object, which is there already, in parts."""
    upload = _Upload(client, key)
    try:
        for at in range(0, len(content), PART_BYTES):
            upload.send(content[at : at + PART_BYTES])
        upload.send(None)
    except BaseException:
        upload.give_up()
        raise
