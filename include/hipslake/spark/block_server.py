"""A process beside an executor that hands its blocks of one exchange to reduce tasks on other machines.

The first map task of an executor starts it. It imports nothing but the standard library, since each exchange
starts one for each executor. It holds a connection to the driver, over which it is told what is not needed
any more; when that connection ends, the exchange has ended or its driver has died, and it removes all blocks
and ends. Both ends of a connection prove that they know the token of the exchange, which is not sent itself.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import re
import secrets
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
CONNECT_SECONDS = 10.0  # to connect, and to prove who one is
LONGEST_LINE = 16 << 10  # of a request

_QUIET_SECONDS = 600.0  # after which a client counts as gone
_STACK_BYTES = 256 << 10  # of a thread for a client: memory may be bounded
_BLOCKS = re.compile(r"(\d+)/(\d+/\d{8}-[0-9a-f]{16}\.blocks)")
_NONCE_BYTES = 16
# A machine may go without a word: seconds until one asks for it, between two questions, and how many.
_KEEPING = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


class ServerOrder(NamedTuple):
    """What a server is told as it starts.

    Attributes
    ----------
    folders : list of str
        One on each disk of the executor, for blocks; they do not exist yet.
    driver : tuple of (str, int)
        Host and port where the driver of the exchange waits for servers.
    token : str
        Random; whoever has it may read blocks.
    host : str
        Where it shall listen; empty: at the address by which its machine calls the driver.
    """

    folders: list[str]
    driver: tuple[str, int]
    token: str
    host: str = ""


def remove_folder(folder: Path) -> None:
    """Remove a folder while attempts that nobody waits for any more may still be writing to it.

    Under its new name they open no further file in it, which would be left over.
    """
    gone = folder.with_name(f"{folder.name}.gone")
    with suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def keep_alive(connection: socket.socket) -> None:
    """Have a connection end within minutes if the other machine is gone, and no sooner for being idle."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPING.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def admits(connection: socket.socket, token: str) -> bool:
    """Whether the caller of a connection knows the token; it is shown that this side does."""
    ours = secrets.token_hex(_NONCE_BYTES)
    connection.sendall(f"{ours}\n".encode())
    theirs, _, proof = _line(connection).partition(" ")
    if not hmac.compare_digest(proof.encode(), _proof(token, "caller", ours, theirs).encode()):
        return False
    connection.sendall(f"{_proof(token, 'called', ours, theirs)}\n".encode())
    return True


def introduce(connection: socket.socket, token: str) -> None:
    """Show whoever was called that this side knows the token, and see that the other does.

    Raises
    ------
    ConnectionError
        It does not: it is another program, or that of another exchange.
    """
    theirs, ours = _line(connection), secrets.token_hex(_NONCE_BYTES)
    connection.sendall(f"{ours} {_proof(token, 'caller', theirs, ours)}\n".encode())
    proof = _proof(token, "called", theirs, ours)
    if not hmac.compare_digest(_line(connection).encode(), proof.encode()):
        raise ConnectionError("whoever listens there does not know the exchange")


def _proof(token: str, side: str, of_called: str, of_caller: str) -> str:
    return hmac.new(token.encode(), f"{side} {of_called} {of_caller}".encode(), "sha256").hexdigest()


def _line(connection: socket.socket) -> str:
    """A short line, read sign by sign, so that nothing behind it is taken."""
    line = b""
    while not line.endswith(b"\n"):
        sign = connection.recv(1)
        if not sign or len(line) > 4 * _NONCE_BYTES + 66:  # a nonce, a blank and a proof
            raise ConnectionError("whoever is there says something else than was asked")
        line += sign
    return line[:-1].decode("ascii", "replace")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, family: socket.AddressFamily, order: ServerOrder) -> None:
        self.address_family = family
        self.folders = [Path(folder) for folder in order.folders]
        self.token = order.token
        super().__init__((host, 0), _Client)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is no matter of the others; what it lacks it says itself."""


class _Client(socketserver.StreamRequestHandler):
    """A connection: requests, each a line: a file, and where its blocks lie."""

    server: _Server
    timeout = CONNECT_SECONDS
    disable_nagle_algorithm = True

    def handle(self) -> None:
        if not admits(self.connection, self.server.token):
            return
        self.connection.settimeout(_QUIET_SECONDS)
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


def _own_host(order: ServerOrder, driver: socket.socket) -> str:
    """Where to listen."""
    own = order.host or str(driver.getsockname()[0])
    if _is_loopback(own) and not _is_loopback(order.driver[0]):
        # On the driver's machine its name may stand for one, which means another machine on each of them.
        raise SystemExit(f"{own}: executors on other machines cannot call it")
    return own


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


def _make_folders(folders: Sequence[Path], address: str) -> None:
    """Make the folders of blocks, and say in the first where the server listens, in one step."""
    for folder in folders:
        folder.mkdir(mode=0o700)
    told = folders[0] / f".{ADDRESS}"
    told.write_text(address)
    told.rename(folders[0] / ADDRESS)


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
    order = ServerOrder(**told | {"driver": tuple(told["driver"])})
    driver = socket.create_connection(order.driver, CONNECT_SECONDS)
    introduce(driver, order.token)
    driver.settimeout(None)
    keep_alive(driver)
    server = _Server(_own_host(order, driver), driver.family, order)
    host, port = server.socket.getsockname()[:2]
    address = f"{host}|{port}"
    try:
        _make_folders(server.folders, address)
    except OSError:
        for folder in server.folders:
            remove_folder(folder)
        raise
    if os.fork():
        sys.stdout.write(address)
        sys.stdout.flush()
        os._exit(0)
    _detach()
    threading.stack_size(_STACK_BYTES)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _follow(driver, server.folders)
    for folder in server.folders:
        remove_folder(folder)
    os._exit(0)


if __name__ == "__main__":
    main()
