"""A relay of bytes on loopback before a PostgreSQL; it loses connections around commits of a catalog."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

Loss = Literal["before", "after"]
_CHANGE, _COMMIT = b"UPDATE iceberg_tables", b"COMMIT"
_END = b"X\x00\x00\x00\x04"  # the message that ends a session
_CHUNK, _SECONDS = 1 << 16, 10


@dataclass
class Relay:
    """A running relay.

    Attributes
    ----------
    port : int
        That it listens at.
    losses : list of str
        What happens to the next transactions that change a table of the catalog: the connection is lost
        before the server is asked to commit, or after it has.
    lost : int
        How many were.
    watch : callable, optional
        Is called once, right before the next change.
    """

    host: str
    upstream: int
    port: int = 0
    losses: list[Loss] = field(default_factory=list)
    lost: int = 0
    watch: Callable[[], object] | None = None

    def serve(self, client: socket.socket) -> None:
        """Relay one connection to its end."""
        server = socket.create_connection((self.host, self.upstream))
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        changing = False
        try:
            while data := client.recv(_CHUNK):
                if _CHANGE in data:
                    changing = True
                    if (first := self.watch) is not None:
                        self.watch = None
                        first()
                if changing and _COMMIT in data and self.losses:
                    loss, self.lost = self.losses.pop(0), self.lost + 1
                    if loss == "after":
                        client.shutdown(socket.SHUT_WR)  # what the server answers goes nowhere
                        server.sendall(data + _END)
                        back.join(_SECONDS)  # it has read both, and leaves
                    return
                server.sendall(data)
        except OSError:
            pass
        finally:
            for each in (client, server):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            with suppress(OSError):  # the server is heard to its end
                target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def running_relay(host: str, port: int) -> Iterator[Relay]:
    """Relay to a server."""
    relay = Relay(host, port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay.port = int(listener.getsockname()[1])

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=relay.serve, args=(client,), daemon=True).start()

        thread = threading.Thread(target=accept, name="relay", daemon=True)
        thread.start()
        try:
            yield relay
        finally:
            listener.shutdown(socket.SHUT_RDWR)
    thread.join()
