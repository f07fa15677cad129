"""A process beside an executor that hands its blocks of one exchange to reduce tasks on other machines.

The first map task of an executor starts it. It imports nothing but the standard library, since each
exchange starts one for each executor. It holds a connection to the driver, over which it is told what is not
needed any more; when that connection ends, the exchange has ended or its driver has died, and it removes all
blocks and ends. It asks each client for a token, and gives out blocks and nothing else.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import re
import shutil
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ADDRESS = "address"
"""The file in the first folder of a server that says where it listens."""

FOUND, GONE = b"+", b"-"  # what an answer begins with
CONNECT_SECONDS = 5.0
LONGEST_LINE = 64 << 10  # of a request: its parts are asked for in several, if need be

_QUIET_SECONDS = 600.0  # after which a client counts as gone
_BLOCKS = re.compile(r"(\d+)/(\d+/\d{8}-[0-9a-f]{16}\.blocks)")


class ServerOrder(NamedTuple):
    """What a server is told as it starts.

    Attributes
    ----------
    folders : list of str
        One on each disk of the executor, for blocks; they do not exist yet.
    driver : list of (str, int)
        Host and port where the driver of the exchange waits for servers.
    token : str
        Random; whoever has it may read blocks.
    """

    folders: list[str]
    driver: tuple[str, int]
    token: str


def remove_folder(folder: Path) -> None:
    """Remove a folder while attempts that nobody waits for any more may still be writing to it.

    Under its new name they open no further file in it, which would be left over.
    """
    gone = folder.with_name(f"{folder.name}.gone")
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, family: socket.AddressFamily, order: ServerOrder) -> None:
        self.address_family = family
        self.folders = [Path(folder) for folder in order.folders]
        self.token = order.token.encode()
        super().__init__((address, 0), _Client)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is no matter of the others; what it lacks it says itself."""


class _Client(socketserver.StreamRequestHandler):
    """A connection: the token in a line, then requests, each a line: a file, and where its blocks lie."""

    server: _Server
    timeout = _QUIET_SECONDS
    disable_nagle_algorithm = True

    def handle(self) -> None:
        if not hmac.compare_digest(self.rfile.readline(LONGEST_LINE).strip(), self.server.token):
            return
        while line := self.rfile.readline(LONGEST_LINE):
            name, *places = line.decode().split()
            path = _path_of(self.server.folders, name)
            try:
                file = None if path is None else path.open("rb")
            except OSError:
                file = None
            if file is None:
                self.wfile.write(GONE)
                return
            with file:
                self.wfile.write(FOUND)
                for start, size in _pairs(places):
                    if self.connection.sendfile(file, start, size) != size:
                        return  # what the client takes for the rest would be the next answer


def _path_of(folders: Sequence[Path], name: str) -> Path | None:
    """The file of a name, `<number of the disk>/<group>/<file>`; None: it is no name of blocks."""
    found = _BLOCKS.fullmatch(name)
    if found is None or int(found[1]) >= len(folders):
        return None
    return folders[int(found[1])] / found[2]


def _pairs(places: Sequence[str]) -> Iterator[tuple[int, int]]:
    numbers = map(int, places)
    return zip(numbers, numbers, strict=True)


def _is_loopback(host: str) -> bool:
    """Whether a host is a loopback address as it is written: then all executors are on its machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _follow(driver: socket.socket, folders: Sequence[Path]) -> None:
    """Remove the blocks of groups as the driver names them, until it names none any more."""
    with suppress(OSError), driver.makefile("rb") as lines:
        for line in lines:
            for folder in folders:
                shutil.rmtree(folder / str(int(line)), ignore_errors=True)


def _detach() -> None:
    """Be a process of nobody's: neither a signal to the worker's group nor its end is ours."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)


def main() -> None:
    """Start from an order on standard input, print the address, and serve on behind."""
    told = json.loads(sys.stdin.buffer.read())
    order = ServerOrder(told["folders"], (told["driver"][0], told["driver"][1]), told["token"])
    driver = socket.create_connection(order.driver, CONNECT_SECONDS)
    driver.settimeout(None)
    driver.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a machine may go without a word
    own = driver.getsockname()[0]
    if ipaddress.ip_address(own).is_loopback and not _is_loopback(order.driver[0]):
        # On the driver's machine its name may stand for one, which means another machine on each of them.
        raise SystemExit(f"{own}: executors on other machines cannot call it")
    server = _Server(own, driver.family, order)
    host, port = server.socket.getsockname()[:2]
    address = f"{host}|{port}"
    driver.sendall(f"{order.token}\n".encode())
    for folder in server.folders:
        folder.mkdir(mode=0o700)
    Path(order.folders[0], ADDRESS).write_text(address)
    if os.fork():
        sys.stdout.write(address)
        sys.stdout.flush()
        os._exit(0)
    _detach()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _follow(driver, server.folders)
    for folder in server.folders:
        remove_folder(folder)
    os._exit(0)


if __name__ == "__main__":
    main()
