"""A Spark session that stands, and that the process of a step uses as its own.

`hipslake.spark.standing_session` keeps it: a JVM with its session and the daemon of its Python workers. A
step's process asks for it at a socket, gets the address of the JVM's gateway, and is then as much its driver
as the process of a job that spark-submit has started, without the seconds in which a JVM starts. One step
uses it at a time.

Messages are lines of JSON. Who asks says its library and master, and is told `port` and `secret`, or
`refused` with the reason. When the step is over it says `done`. Who goes without a word has been killed: then
the session ends, with all that runs in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hipslake.spark.settings import SESSION, WORKERS
from hipslake.storage.access import for_workers
from hipslake.storage.timeouts import set_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = "HIPSLAKE_SPARK_SESSION"
"""The variable that names the socket; without it, nobody asks for a session that stands."""

_ANSWERS_WITHIN = 5.0  # seconds
_LONGEST = 65_536  # bytes of a message


class NoSessionError(Exception):
    """There is no session to be had: none stands, it is in use, or it is not ours; the message says which."""


class LostSessionError(Exception):
    """The session ended while a step used it; what the step had not finished may be done again."""


@contextlib.contextmanager
def attached_session(place: Path, *, master: str, name: str) -> Iterator[SparkSession]:
    """Use the session that stands at a socket, alone, until the block ends.

    Parameters
    ----------
    place : Path
        The socket.
    master : str
        The Spark master that is wanted, such as `local[*,4]`.
    name : str
        What it is wanted for, shown in the log of the session.

    Raises
    ------
    NoSessionError
        Before the block: the session cannot be had.
    LostSessionError
        In place of what the block raised: the session ended meanwhile.
    """
    if _has_its_own():
        raise NoSessionError("this process has a Spark session of its own")
    door, told = _asked(place, {"library": library_stamp(), "master": master, "name": name})
    with door:
        try:
            with _joined(int(told["port"]), str(told["secret"])) as spark:
                yield spark
        except Exception as error:
            if _is_gone(door):
                raise LostSessionError(f"the Spark session at {place} ended during {name}") from error
            _say_done(door)
            raise
        _say_done(door)


def library_stamp() -> str:
    """Return what tells one state of the library's files from another, as a hexadecimal digest."""
    root = Path(__file__).parents[1]
    found = []
    for path in sorted(root.rglob("*.py")):
        told = path.stat()
        found.append(f"{path.relative_to(root)} {told.st_mtime_ns} {told.st_size}")
    return hashlib.sha256("\n".join([str(root), *found]).encode()).hexdigest()


def peer_of(connection: socket.socket) -> int:
    """Return the user id of the process at the other end of a unix socket."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(user)


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """Return the next message, or None where the other end has gone.

    Raises
    ------
    ValueError
        What came is no message.
    TimeoutError
        Nothing came in the time that the socket has.
    """
    read = b""
    while not read.endswith(b"\n"):
        try:
            part = connection.recv(_LONGEST)
        except ConnectionError:
            return None
        read += part
        if not part:
            return None
        if len(read) > _LONGEST:
            raise ValueError("a message is too long")
    found = json.loads(read)
    if not isinstance(found, dict):
        raise ValueError("a message is no object")
    return found


def _has_its_own() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _asked(place: Path, question: dict[str, str]) -> tuple[socket.socket, dict[str, Any]]:
    """Ask for the session; the connection over which it is held, and what was told."""
    door = socket.socket(socket.AF_UNIX)
    door.settimeout(_ANSWERS_WITHIN)
    try:
        door.connect(str(place))
        if peer_of(door) != os.getuid():
            raise NoSessionError(f"the process at {place} is another user's")
        send(door, question)
        told = receive(door)
    except (OSError, ValueError) as error:
        door.close()
        raise NoSessionError(f"no Spark session stands at {place} ({error})") from None
    except NoSessionError:
        door.close()
        raise
    if told is None or "refused" in told:
        door.close()
        raise NoSessionError(str(told["refused"]) if told else f"the Spark session at {place} is ending")
    return door, told


def _is_gone(door: socket.socket) -> bool:
    """Whether the session has ended; it is given a moment to be seen."""
    door.settimeout(1.0)
    with contextlib.suppress(TimeoutError, ValueError):
        return receive(door) is None
    return False


def _say_done(door: socket.socket) -> None:
    with contextlib.suppress(OSError):  # what the step did is done, whether the session goes on or not
        send(door, {"done": True})


@contextlib.contextmanager
def _joined(port: int, secret: str) -> Iterator[SparkSession]:
    """A session of its own in the JVM of a gateway, with the settings and secrets of this process."""
    from py4j.clientserver import ClientServer
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    with _environment(given):  # tells pyspark that the JVM is there
        gateway: ClientServer = launch_gateway()
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
    handler, main = signal.getsignal(signal.SIGINT), threading.current_thread() is threading.main_thread()
    try:
        java = gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
        conf = SparkConf(loadDefaults=False, _jvm=gateway.jvm)
        for pair in java.sparkContext().conf().getAll():
            if not pair._1().startswith("spark.executorEnv."):
                conf.set(pair._1(), pair._2())
        for key, value in _settings().items():
            conf.set(key, value)
        context = SparkContext(
            gateway=gateway, jsc=gateway.jvm.JavaSparkContext(java.sparkContext()), conf=conf
        )
        yield SparkSession(context, java.newSession())
    finally:
        _leave(gateway)
        if main:
            signal.signal(signal.SIGINT, handler)


def _settings() -> dict[str, str]:
    """The settings of a session, and what its workers are told, as this process has it."""
    workers = {**for_workers(os.environ), **set_in(os.environ)}
    return {**SESSION, **WORKERS, **{f"spark.executorEnv.{key}": value for key, value in workers.items()}}


def _leave(gateway: Any) -> None:
    """Forget the JVM, which goes on: the next step of this process may ask for it again."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is not None and getattr(context, "_accumulatorServer", None) is not None:
        # In a thread, since the server looks only twice a second whether it is to end.
        threading.Thread(target=context._accumulatorServer.shutdown, daemon=True).start()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    with contextlib.suppress(Exception):  # py4j's own, of a JVM that has gone
        gateway.close()


@contextlib.contextmanager
def _environment(given: dict[str, str]) -> Iterator[None]:
    """Have variables set within the block."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
