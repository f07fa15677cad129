"""Servers on loopback that accept connections, and then keep who asks waiting."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

Fault = Literal["silent", "drips headers", "drips body", "never reads"]

_INTERVAL = 0.05  # seconds between two bytes
_BODY = b'HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: "1"\r\nContent-Type: text/html\r\n\r\n'
_HEADERS = b"HTTP/1.1 200 OK\r\nX-Long: "


@dataclass
class SlowServer:
    """A running server.

    Attributes
    ----------
    fault : str
        What it does to each request; it may be changed.
    asked : int
        Connections so far.
    """

    fault: Fault
    port: int = 0
    asked: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    connections: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def open_connections(self) -> int:
        """How many connections the other side has not closed."""
        return sum(_is_open(connection) for connection in self.connections)


@contextmanager
def running_slow(fault: Fault) -> Iterator[SlowServer]:
    """Start a server; its connections are closed at the end of the block."""
    server = SlowServer(fault)
    with socket.socket() as listening:
        # Small, so that who sends much to one that never reads has to wait.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        server.port = listening.getsockname()[1]
        accepting = threading.Thread(target=_accept, args=(listening, server), daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            server.ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in server.connections:
                connection.close()


def _accept(listening: socket.socket, server: SlowServer) -> None:
    while not server.ended.is_set():
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        server.asked += 1
        server.connections.append(connection)
        threading.Thread(target=_serve, args=(connection, server), daemon=True).start()


def _serve(connection: socket.socket, server: SlowServer) -> None:
    with suppress(OSError):
        if server.fault == "never reads":
            return
        while connection.recv(1 << 16).startswith(b"HEAD") and server.fault == "drips body":
            connection.sendall(_BODY)  # of its answer, the headers are all
        if server.fault == "drips body":
            connection.sendall(_BODY)
        if server.fault == "drips headers":
            connection.sendall(_HEADERS)
        while server.fault != "silent" and not server.ended.wait(_INTERVAL):
            connection.sendall(b"1")


def _is_open(connection: socket.socket) -> bool:
    """Whether the other side has neither closed nor reset a connection, when all that it sent is read."""
    try:
        connection.setblocking(False)
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
