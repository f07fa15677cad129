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
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from threading import Lock, Thread
from typing import NamedTuple

import pyarrow as pa
from pyspark import Accumulator, SparkConf, SparkContext

from hipslake.spark.block_server import (
    ADDRESS,
    CONNECT_SECONDS,
    FOUND,
    LONGEST_LINE,
    ServerOrder,
    admits,
    introduce,
    keep_alive,
)
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
_SERVERS_AT_ONCE = 4
_LOCK = "hipslake-blocks.lock"
_LOCAL_DIRS = "SPARK_LOCAL_DIRS"  # Spark tells its workers which folders are their executor's
_LIBRARY = str(Path(__file__).parents[2])  # a folder, or the archive that travels with a job
_PROGRAM = """\
import sys
sys.path.append(sys.argv[1])
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
    "spark.storage.decommission.shuffleBlocks.enabled",
)
_PORTS = ("spark.blockManager.port", "spark.driver.blockManager.port")  # of a network with a firewall
_SHUFFLES = ("sort", "tungsten-sort")
_SHUFFLE, _SHUFFLE_STORAGE = "spark.shuffle.manager", "spark.shuffle.sort.io.plugin.class"
_LEAST_BYTES = 8 << 20  # of an exchange that is worth a process beside each executor

_seen: dict[tuple[str, str], str] = {}  # servers that this process has called, by exchange and executor
_without: set[tuple[str, str]] = set()  # executors that have none


def may_serve(conf: SparkConf, size: float) -> bool:
    """Whether executors may call each other beside Spark, and blocks of so many bytes are worth it.

    That is in the clear, at ports that the system draws.
    """
    told = {name: str(conf.get(name) or "").strip().lower() for name in (*_LEFT_TO_SPARK, *_PORTS)}
    if "true" in [told[name] for name in _LEFT_TO_SPARK]:
        return False
    if {told[name] for name in _PORTS} - {"", "0"}:
        return False
    plain = (conf.get(_SHUFFLE) or _SHUFFLES[0]) in _SHUFFLES and not conf.get(_SHUFFLE_STORAGE)
    return plain and size >= _LEAST_BYTES


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
        Random; servers give blocks to whoever proves that he has it.
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
            with _out_of_reach("blocks of this executor are gone"):
                blocks[at] = read_block(mapped.slice(disks[int(disk)] / file, start, size))
        with ThreadPoolExecutor(_SERVERS_AT_ONCE, thread_name_prefix="blocks") as pool:
            for found in pool.map(self._fetched, apart, apart.values()):
                for at, block in found:
                    blocks[at] = block
        return [block for block in blocks if block is not None]

    def arrived(self, target: int) -> None:
        self.finished.add([target])

    def _folders(self) -> list[Path]:
        """Where blocks of the exchange lie on the disks of this process's executor."""
        told = os.environ.get(_LOCAL_DIRS, "")
        return [Path(folder, self.name) for folder in told.split(",") if folder]

    def _own_address(self) -> str | None:
        """What the executor's server has said; None: there is none."""
        try:
            return (self._folders()[0] / ADDRESS).read_text() or None
        except (OSError, LookupError):
            return None

    def _started(self) -> str | None:
        """The address of the executor's server, which is started if there is none; None: it cannot be."""
        executor = (self.name, os.environ.get(_LOCAL_DIRS, ""))
        if executor in _without:
            return None
        if executor not in _seen:
            try:
                _seen[executor] = self._found_or_started()
            except (OSError, LookupError, ValueError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or b""
                log.warning("No server of blocks: they go through the shuffle. %s %s", error, said.decode())
                _without.add(executor)
                return None
        return _seen[executor]

    def _found_or_started(self) -> str:
        folders = self._folders()
        place = folders[0].parent
        tried = place / f"{self.name}.tried"  # is left where none could be started: others need not try
        with (place / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            address = self._own_address()
            if address is None:
                tried.touch(exist_ok=False)
                address = self._start(folders)
                tried.unlink()
        with self._called(address):  # it may have been killed
            return address

    def _start(self, folders: Sequence[Path]) -> str:
        order = ServerOrder([*map(str, folders)], self.driver, self.token, _host_of_executor())
        done = subprocess.run(
            [sys.executable, "-P", "-s", "-S", "-c", _PROGRAM, _LIBRARY],
            input=json.dumps(order._asdict()).encode(),
            capture_output=True,
            timeout=_START_SECONDS,
            check=True,
        )
        return done.stdout.decode()

    @contextmanager
    def _called(self, address: str) -> Iterator[socket.socket]:
        host, _, port = address.rpartition("|")
        with socket.create_connection((host, int(port)), CONNECT_SECONDS) as connection:
            introduce(connection, self.token)
            connection.settimeout(_READ_SECONDS)
            yield connection

    def _fetched(self, address: str, parts: Sequence[_Part]) -> list[tuple[int, pa.RecordBatch]]:
        """Blocks of a server, each with its place."""
        with _out_of_reach(f"{address}: its blocks cannot be fetched"), self._called(address) as connection:
            return [(at, read_block(content)) for at, content in _received(connection, parts)]


@contextmanager
def _out_of_reach(what: str) -> Iterator[None]:
    """Whatever goes wrong with blocks that others have made is told as one error."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise BlocksOutOfReachError(f"{what}: {error}") from error


def _host_of_executor() -> str:
    """The address that an administrator has given the executor, if it is one."""
    host = os.environ.get("SPARK_LOCAL_IP", "")
    try:
        return "" if ip_address(host).is_unspecified else host
    except ValueError:
        return ""


class _Part(NamedTuple):
    """A block: its place among those that a reduce task got, and where it lies."""

    at: int
    file: str
    start: int
    size: int


def _received(connection: socket.socket, parts: Sequence[_Part]) -> Iterator[tuple[int, pa.Buffer]]:
    """Ask for blocks, some requests ahead of the answers, and take them in.

    Not more than fit into any socket's buffer: a server that sends does not read.
    """
    requests = deque(_requests(parts))
    sent: deque[tuple[int, list[_Part]]] = deque()
    ahead = 0
    while requests or sent:
        while requests and (not sent or ahead + len(requests[0][0]) <= LONGEST_LINE):
            line, asked = requests.popleft()
            connection.sendall(line)
            sent.append((len(line), asked))
            ahead += len(line)
        answer = bytearray(1)
        _fill(connection, memoryview(answer))
        if answer != FOUND:
            raise FileNotFoundError("its server has them no more")
        size, asked = sent.popleft()
        ahead -= size
        for part in asked:
            content = pa.allocate_buffer(part.size)
            _fill(connection, memoryview(content))
            yield part.at, content


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
        self._token = token
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
        while self._listening.fileno() != -1:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # closed, or too many files are open
                time.sleep(0.1)
                continue
            Thread(target=self._admit, args=(connection,), daemon=True).start()

    def _admit(self, connection: socket.socket) -> None:
        connection.settimeout(CONNECT_SECONDS)
        try:
            known = admits(connection, self._token)
        except OSError:
            known = False
        with self._lock:
            if not known or self._listening.fileno() == -1:
                connection.close()
                return
            keep_alive(connection)
            self._connections.append(connection)
