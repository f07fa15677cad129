"""Both ends of a connection through the proxy of the store benchmark: heads, and bodies as they come."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import socket
import time

_PIECE = 256 << 10
_PIPE = 1 << 20
_MOVED = 64 << 10  # bytes of a body from which on the kernel moves them
_MOST_HEAD = 64 << 10
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


class ChunkedEnd:
    """Finds the end of a body that comes in chunks, from its bytes as they pass."""

    def __init__(self) -> None:
        self._left = 0  # bytes of the chunk that are still to come, its line end included
        self._line = b""  # of a size or a trailer, as far as it came
        self._trailers = False

    def take(self, data: memoryview) -> int | None:
        """Take the next bytes; how many of them the body's last ones are, or None if it goes on."""
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            rest = bytes(data[at : at + _MOST_HEAD])
            end = rest.find(b"\n")
            if end < 0:
                self._line += rest
                at += len(rest)
                continue
            line, self._line = (self._line + rest[:end]).strip(), b""
            at += end + 1
            if self._trailers:
                if not line:
                    return at
            elif size := int(line.partition(b";")[0], 16):
                self._left = size + 2
            else:
                self._trailers = True
        return None


class Bandwidth:
    """Lets so many bytes pass in a second, of all connections together, in one direction."""

    def __init__(self) -> None:
        self.bytes_per_second = 0.0  # 0: no limit
        self._free_at = 0.0

    async def take(self, size: int) -> None:
        if self.bytes_per_second:
            now = time.monotonic()
            self._free_at = max(now, self._free_at) + size / self.bytes_per_second
            await asyncio.sleep(self._free_at - now)


class ConnectionEnd:
    """One end of a connection, with what came and was not taken yet."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray(_PIECE)
        self._came = memoryview(b"")
        self.sent_at = 0.0  # when its last bytes were handed over: from then on the other side may have them
        self._pipe: tuple[int, int] | None = None  # that bytes pass from here to the other end

    async def more(self) -> memoryview:
        """What came, or comes next; empty at the end. It holds until the next call."""
        if not self._came:
            # A server that writes head and body apart waits in between until what came first is acknowledged.
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            size = await asyncio.get_running_loop().sock_recv_into(self.sock, self._buffer)
            self._came = memoryview(self._buffer)[:size]
        return self._came

    def taken(self, size: int) -> None:
        self._came = self._came[size:]

    async def head(self) -> bytes:
        """The next head, to its empty line; nothing where the connection ends."""
        head = b""
        while True:
            came = await self.more()
            if not came:
                return b""
            before = len(head)
            head += bytes(came[:_MOST_HEAD])
            end = head.find(b"\r\n\r\n")
            self.taken((end + 4 if end >= 0 else len(head)) - before)
            if end >= 0:
                return head[: end + 4]
            if len(head) > _MOST_HEAD:
                raise ValueError("a head has no end")

    async def send(self, data: bytes | memoryview) -> None:
        self.sent_at = time.monotonic()
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def pass_body(self, head: bytes, to: ConnectionEnd, bandwidth: Bandwidth, *, answer: bool) -> int:
        """Pass on the body that follows a head; its bytes. An answer without a length ends with it."""
        length, chunks = LENGTH.search(head), ChunkedEnd() if CHUNKED.search(head) else None
        left = int(length[1]) if length else None
        if chunks is None and left is None and not answer:
            return 0
        passed = 0
        while left != 0 or chunks is not None:
            if left is not None and left >= _MOVED and not self._came and not bandwidth.bytes_per_second:
                await self._move(left, to)
                return passed + left
            came = await self.more()
            if not came:
                if chunks is not None or left is not None:
                    raise ConnectionResetError
                break
            size = len(came) if left is None else min(left, len(came))
            end = chunks.take(came) if chunks is not None else None
            size = size if end is None else end
            await bandwidth.take(size)
            await to.send(came[:size])
            self.taken(size)
            passed += size
            if end is not None:
                break
            left = None if left is None else left - size
        return passed

    async def _move(self, left: int, to: ConnectionEnd) -> None:
        """Pass on so many bytes through a pipe: the kernel hands over pages, and copies none."""
        if self._pipe is None:
            self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            fcntl.fcntl(self._pipe[1], fcntl.F_SETPIPE_SZ, _PIPE)
        leaves, enters = self._pipe
        while left:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            size = await _moved(self.sock, enters, min(left, _PIPE), of=self.sock)
            if not size:
                raise ConnectionResetError
            left -= size
            to.sent_at = time.monotonic()
            while size:
                size -= await _moved(leaves, to.sock, size, of=to.sock)

    def close(self) -> None:
        """Close the pipe."""
        for end in self._pipe or ():
            os.close(end)
        self._pipe = None


async def _moved(
    source: int | socket.socket, target: int | socket.socket, most: int, *, of: socket.socket
) -> int:
    """Move bytes between a socket and a pipe, once the socket is ready; how many they were."""
    loop = asyncio.get_running_loop()
    enters = target is not of
    here, there = (each if isinstance(each, int) else each.fileno() for each in (source, target))
    while True:
        try:
            return os.splice(here, there, most, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            ready = loop.create_future()
            watch, leave = (
                (loop.add_reader, loop.remove_reader) if enters else (loop.add_writer, loop.remove_writer)
            )
            watch(of.fileno(), _settle, ready)
            try:
                await ready
            finally:
                leave(of.fileno())


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
