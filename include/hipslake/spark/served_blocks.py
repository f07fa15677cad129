"""Blocks of an exchange between machines: they wait in files of the executor that made them, which it serves.

Through Spark's shuffle a block is copied several times, out of Python into the JVM, and back on the other
side. Here a map task writes it to a file of its executor, as `hipslake.spark.transport.ThroughFiles` does,
and only a reference is shuffled. A reduce task maps the files of its own executor into memory, and asks the
servers of the others (`hipslake.spark.block_server`) for theirs.

Spark runs map tasks again whose executor is lost, since their references were in its shuffle files. If a
reduce task cannot get blocks all the same, the driver runs the exchange again, through the shuffle.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import socket
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock, Thread
from typing import NamedTuple

import pyarrow as pa
from pyspark import Accumulator, SparkConf, SparkContext

from hipslake.spark.block_server import ADDRESS, CONNECT_SECONDS, FOUND, LONGEST_LINE
from hipslake.spark.transport import (
    BlockFiles,
    BlocksOutOfReachError,
    Mapped,
    Pack,
    ThroughShuffle,
    freeing_groups,
    group_of,
    read_block,
    references_of,
)

log = logging.getLogger(__name__)

_START_SECONDS = 30.0
_READ_SECONDS = 120.0  # of silence of a server
_AHEAD = 32  # requests that a server is sent before it has answered
_SERVERS_AT_ONCE = 4
_LOCK = "hipslake-blocks.lock"
_LOCAL_DIRS = "SPARK_LOCAL_DIRS"  # Spark tells its workers which folders are their executor's
_LIBRARY = str(Path(__file__).parents[2])  # a folder, or the archive that travels with a job
_PROGRAM = """\
import sys
sys.path.insert(0, sys.argv[1])
from hipslake.spark.block_server import main
main()
"""

# Where one of them is set, rows must not cross the network, or stand on disks, in the clear; or what is
# shuffled outlives its executor, as references would, and their blocks would not.
_LEFT_TO_SPARK = (
    "spark.network.crypto.enabled",
    "spark.io.encryption.enabled",
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.shuffle.service.enabled",
)
_PORT = "spark.blockManager.port"

_without: set[str] = set()  # exchanges for which this process could start no server


def may_serve(conf: SparkConf) -> bool:
    """Whether executors may call each other beside Spark: in the clear, at ports that the system draws."""
    if any(str(conf.get(name, "false")).lower() == "true" for name in _LEFT_TO_SPARK):
        return False
    return str(conf.get(_PORT, "0")) == "0" and os.name == "posix"


@dataclass(frozen=True)
class ThroughServers:
    """The payload says where a block lies: `<host>|<port>/<disk>/<group>/<file> <start> <size>`.

    Attributes
    ----------
    name : str
        Of the exchange, random: that of its folder on each disk of an executor.
    driver : tuple of (str, int)
        Where its driver waits for servers.
    token : str
        Random; servers give blocks to whoever has it.
    targets : int
        Number of reduce tasks.
    finished : Accumulator
        Takes the targets whose tasks have succeeded.
    write_out : bool
        As of `ThroughFiles`.
    """

    name: str
    driver: tuple[str, int]
    token: str
    targets: int
    finished: Accumulator[list[int]]
    write_out: bool = False

    @classmethod
    @contextmanager
    def serving(
        cls, context: SparkContext, targets: int, *, write_out: bool = False
    ) -> Iterator[ThroughServers]:
        """Wait for the servers of an exchange while the block runs, and have them remove what is done with.

        Raises
        ------
        OSError
            The driver cannot be reached at the address that executors know.
        """
        conf, token = context.getConf(), secrets.token_hex(16)
        host = conf.get("spark.driver.host") or "localhost"
        with (
            BlockServers(conf.get("spark.driver.bindAddress") or host, token) as servers,
            freeing_groups(context, targets, servers.free) as finished,
        ):
            name = f"hipslake-{secrets.token_hex(8)}"
            yield cls(name, (host.strip("[]"), servers.port), token, targets, finished, write_out)

    @contextmanager
    def packing(self, source: int) -> Iterator[Pack]:
        address = self._started()
        if address is None:
            with ThroughShuffle().packing(source) as pack_whole:
                yield pack_whole
            return
        disks = self._folders()
        disk = secrets.randbelow(len(disks))  # numbers of sources may go by turns to executors
        with BlockFiles(disks[disk], source, self.write_out) as files:

            def pack(target: int, rows: pa.RecordBatch) -> pa.Buffer:
                group = group_of(target, self.targets)
                return pa.py_buffer(f"{address}/{disk}/{files.append(group, rows)}".encode())

            yield pack

    def unpacked(self, payloads: Sequence[pa.Buffer]) -> list[pa.RecordBatch]:
        blocks, references = references_of(payloads)
        own, mapped, disks = self._own_address(), Mapped(), self._folders()
        apart: dict[str, list[_Part]] = defaultdict(list)
        for at, name, start, size in references:
            address, disk, file = name.split("/", 2)
            if address != own:
                apart[address].append(_Part(at, f"{disk}/{file}", start, size))
                continue
            try:
                blocks[at] = read_block(mapped.slice(disks[int(disk)] / file, start, size))
            except OSError as error:
                raise BlocksOutOfReachError(f"blocks of this executor are gone: {error}") from error
        with ThreadPoolExecutor(_SERVERS_AT_ONCE, thread_name_prefix="blocks") as pool:
            for found in pool.map(self._fetched, apart, apart.values()):
                for at, content in found:
                    blocks[at] = read_block(content)
        return [block for block in blocks if block is not None]

    def arrived(self, target: int) -> None:
        self.finished.add([target])

    def _folders(self) -> list[Path]:
        """Where blocks of the exchange lie on the disks of this process's executor."""
        return [Path(folder, self.name) for folder in os.environ[_LOCAL_DIRS].split(",")]

    def _own_address(self) -> str | None:
        try:
            return (self._folders()[0] / ADDRESS).read_text()
        except OSError:
            return None

    def _started(self) -> str | None:
        """The address of the executor's server, which is started if there is none; None: it cannot be."""
        if self.name in _without:
            return None
        folders = self._folders()
        with (folders[0].parent / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            address = self._own_address()
            if address is None:
                address = self._start(folders)
        if address is None:
            _without.add(self.name)
        return address

    def _start(self, folders: Sequence[Path]) -> str | None:
        order = {"folders": [str(folder) for folder in folders], "driver": self.driver, "token": self.token}
        command = [sys.executable, "-I", "-S", "-c", _PROGRAM, _LIBRARY]
        try:
            done = subprocess.run(
                command,
                input=json.dumps(order).encode(),
                capture_output=True,
                timeout=_START_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or b""
            log.warning(
                "No server of blocks starts: they go through the shuffle. %s %s", error, said.decode()
            )
            return None
        return done.stdout.decode()

    def _fetched(self, address: str, parts: Sequence[_Part]) -> list[tuple[int, pa.Buffer]]:
        """Blocks of a server, each with its place."""
        host, _, port = address.rpartition("|")
        try:
            with socket.create_connection((host, int(port)), CONNECT_SECONDS) as connection:
                connection.settimeout(_READ_SECONDS)
                return _received(connection, self.token, parts)
        except OSError as error:
            raise BlocksOutOfReachError(f"{address}: its blocks cannot be fetched: {error}") from error


class _Part(NamedTuple):
    """A block: its place among those that a reduce task got, and where it lies."""

    at: int
    file: str
    start: int
    size: int


def _received(connection: socket.socket, token: str, parts: Sequence[_Part]) -> list[tuple[int, pa.Buffer]]:
    """Ask for blocks, some requests ahead of the answers, and take them in."""
    connection.sendall(f"{token}\n".encode())
    requests = iter(_requests(parts))
    sent: deque[list[_Part]] = deque()
    found: list[tuple[int, pa.Buffer]] = []
    while True:
        for line, asked in islice(requests, _AHEAD - len(sent)):
            connection.sendall(line)
            sent.append(asked)
        if not sent:
            return found
        answer = bytearray(1)
        _fill(connection, memoryview(answer))
        if answer != FOUND:
            raise FileNotFoundError("its server has them no more")
        for part in sent.popleft():
            content = pa.allocate_buffer(part.size)
            _fill(connection, memoryview(content))
            found.append((part.at, content))


def _requests(parts: Sequence[_Part]) -> Iterator[tuple[bytes, list[_Part]]]:
    """One request for the blocks of each file, or several, as they fit into lines."""
    of_file: dict[str, list[_Part]] = defaultdict(list)
    for part in parts:
        of_file[part.file].append(part)
    for file, its in of_file.items():
        most = (LONGEST_LINE - len(file)) // 48  # two numbers of up to 20 digits each
        for first in range(0, len(its), most):
            some = its[first : first + most]
            places = " ".join(f"{part.start} {part.size}" for part in some)
            yield f"{file} {places}\n".encode(), some


def _fill(connection: socket.socket, into: memoryview) -> None:
    while into:
        size = connection.recv_into(into)
        if not size:
            raise ConnectionError("its server broke off")
        into = into[size:]


class BlockServers:
    """The servers of an exchange, as its driver knows them: by a connection from each of them.

    Parameters
    ----------
    host : str
        Where the driver waits for them.
    token : str
        By which they are told from others.
    """

    def __init__(self, host: str, token: str) -> None:
        self._token = f"{token}\n".encode()
        family, *_, address = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)[0]
        self._listening = socket.create_server(address, family=family, backlog=128)
        self._lock = Lock()
        self._connections: list[socket.socket] = []

    @property
    def port(self) -> int:
        """Where the driver waits."""
        return int(self._listening.getsockname()[1])

    def __enter__(self) -> BlockServers:
        Thread(target=self._accept, name="block servers", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            with suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._listening.close()
            for connection in self._connections:
                connection.close()

    def free(self, group: int) -> None:
        """Have the blocks of a group of targets removed."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):  # it has gone, and its blocks with it
                    connection.sendall(f"{group}\n".encode())

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            Thread(target=self._admit, args=(connection,), daemon=True).start()

    def _admit(self, connection: socket.socket) -> None:
        connection.settimeout(CONNECT_SECONDS)
        try:
            with connection.makefile("rb") as lines:
                known = secrets.compare_digest(lines.readline(len(self._token)), self._token)
        except OSError:
            known = False
        with self._lock:
            if not known or self._listening.fileno() == -1:
                connection.close()
                return
            self._connections.append(connection)
