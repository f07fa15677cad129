"""How fast the proxy of the store benchmark is by itself: before a server that does nothing with bytes."""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
import time
from itertools import pairwise
from typing import NamedTuple

from benchmarks.processes import ROOT, environment
from benchmarks.store_proxy import running_proxy

_PIECE = 1 << 20
_REQUESTS = 500


class Speed(NamedTuple):
    """What the proxy does in a second, and what it takes of the processor.

    Attributes
    ----------
    down, up : float
        GB/s of one connection, from the server and to it.
    cpu_down, cpu_up : float
        Processor seconds of the proxy per GB.
    cpu_request : float
        Processor milliseconds of the proxy for a request without a body.
    """

    down: float
    up: float
    cpu_down: float
    cpu_up: float
    cpu_request: float


def measured_speed(megabytes: int = 1024, requests: int = _REQUESTS) -> Speed:
    """Pass so many bytes through a proxy in each direction, and so many requests without any."""
    command = [sys.executable, "-m", "benchmarks.store_proxy_speed"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            with running_proxy(f"127.0.0.1:{server.stdout.readline().strip()}") as proxy:
                size = megabytes << 20
                host, port = proxy.endpoint.removeprefix("http://").split(":")
                cpu = [proxy.take().cpu]
                seconds = []
                with socket.create_connection((host, int(port))) as client:
                    for method, bodies in (("GET", [size]), ("PUT", [size]), ("GET", [0] * requests)):
                        began = time.monotonic()
                        for body in bodies:
                            _ask(client, method, body)
                        seconds.append(time.monotonic() - began)
                        cpu.append(proxy.take().cpu)
        finally:
            server.kill()
    down, up, each = (after - before for before, after in pairwise(cpu))
    gigabytes = size / 1e9
    return Speed(
        gigabytes / seconds[0],
        gigabytes / seconds[1],
        down / gigabytes,
        up / gigabytes,
        1000 * each / requests,
    )


def _ask(client: socket.socket, method: str, body: int) -> None:
    sent = body if method == "PUT" else 0
    client.sendall(b"%s /%d HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (method.encode(), body, sent))
    _send(client, sent)
    _take(client, int(re.findall(rb"Content-Length: (\d+)", _head(client))[0]))


def _head(connection: socket.socket) -> bytes:
    """A head, byte by byte, so that nothing of the body is taken."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        came = connection.recv(1)
        if not came:
            raise ConnectionResetError
        head += came
    return head


def _send(connection: socket.socket, size: int) -> None:
    piece = memoryview(bytes(_PIECE))
    for at in range(0, size, _PIECE):
        connection.sendall(piece[: size - at])


def _take(connection: socket.socket, size: int) -> None:
    buffer = memoryview(bytearray(_PIECE))
    while size:
        came = connection.recv_into(buffer[:size])
        if not came:
            raise ConnectionResetError
        size -= came


def main() -> None:
    """Answer GET with as many bytes as the path says, and take those of PUT, until killed."""
    argparse.ArgumentParser(description=main.__doc__).parse_args()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                try:
                    while True:
                        head = _head(connection)
                        size = int(head.split(b" ")[1][1:])
                        if head.startswith(b"PUT"):
                            _take(connection, size)
                            size = 0
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                        _send(connection, size)
                except OSError:
                    continue


if __name__ == "__main__":
    main()
