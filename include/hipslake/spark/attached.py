"""A Spark session that stands, and that the process of a step uses as its own.

`hipslake.spark.standing_session` keeps it: a JVM with its session and the daemon of its Python workers. A
step's process asks for it at a socket, gets the address of the JVM's gateway, and is then as much its driver
as the process of a job that spark-submit has started, without the seconds in which a JVM starts. One step
uses it at a time.

Messages are lines of JSON. Who asks says its library, its master and its environment, and is told `port` and
`secret`, or `refused` with the reason. When the step is over it says `done`, and `spoiled` where Spark itself
has failed it: then the session ends, and another one is opened. So it does where somebody goes without a
word, who has been killed, with all that runs in it. Who is done is told `over` once nothing of it runs any
more.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hipslake.spark.settings import SESSION, WORKERS
from hipslake.spark.worker_environment import digest_of_handed_on, digests_of, handed_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = "HIPSLAKE_SPARK_SESSION"
"""The variable that names the socket; without it, nobody asks for a session that stands."""

_ANSWERS_WITHIN = 5.0  # seconds
_OVER_WITHIN = 30.0  # seconds for what runs of a step that failed to end, at most
_LONGEST = 65_536  # bytes of a message

_held: list[socket.socket] = []  # over which this process holds a session


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
    question = {
        "library": library_stamp(),
        "master": master,
        "name": name,
        "environment": digests_of(os.environ),
        "handed on": sorted(handed_on(os.environ)),
        "workers": digest_of_handed_on(os.environ),
    }
    door, told = _asked(place, question)
    with door:
        _held.append(door)
        try:
            with _joined(int(told["port"]), str(told["secret"])) as spark:
                yield spark
        except Exception as error:
            if _is_gone(door):
                raise LostSessionError(f"the Spark session at {place} ended during {name}") from error
            _say_done(door, spoiled=_is_of_spark(error))
            _wait_until_over(door)
            raise
        finally:
            _held.remove(door)
        _say_done(door)


def give_up() -> None:
    """End the session that this process uses, with all that runs in it; what waits for it fails.

    May be called by the handler of a signal.
    """
    for door in _held:
        with contextlib.suppress(OSError):
            door.shutdown(socket.SHUT_RDWR)


def library_stamp() -> str:
    """Return what tells one state of the library and its Python from another, as a hexadecimal digest."""
    import pyspark

    root, installed = Path(__file__).parents[1], Path(str(pyspark.__file__)).parents[1]
    found = [sys.executable, sys.version, pyspark.__version__, f"{installed} {installed.stat().st_mtime_ns}"]
    for path in sorted(root.rglob("*.py")):
        with contextlib.suppress(FileNotFoundError):  # gone since the folder was listed
            told = path.stat()
            times = told.st_mtime_ns, told.st_ctime_ns
            found.append(f"{path.relative_to(root)} {times} {told.st_size}")
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


def _asked(place: Path, question: dict[str, Any]) -> tuple[socket.socket, dict[str, Any]]:
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


def _say_done(door: socket.socket, *, spoiled: bool = False) -> None:
    with contextlib.suppress(OSError):  # what the step did is done, whether the session goes on or not
        send(door, {"done": True, "spoiled": spoiled})


def _wait_until_over(door: socket.socket) -> None:
    """Wait until nothing of this step runs any more: it may be tried again as soon as it has failed."""
    door.settimeout(_OVER_WITHIN)
    with contextlib.suppress(OSError, ValueError):
        receive(door)


def _is_of_spark(error: BaseException | None) -> bool:
    """Whether Spark, or the way to its JVM, is among the causes of an error: then the JVM may be to blame."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Py4JError | PySparkException | EOFError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


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
    of_workers = {f"spark.executorEnv.{key}": value for key, value in handed_on(os.environ).items()}
    return {**SESSION, **WORKERS, **of_workers}


def _leave(gateway: Any) -> None:
    """Forget the JVM, which goes on: the next step of this process may ask for it again."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is not None and getattr(context, "_accumulatorServer", None) is not None:
        # In a thread, since the server looks only twice a second whether it is to end.
        threading.Thread(target=context._accumulatorServer.shutdown, daemon=True).start()
    if context is not None and getattr(context, "_temp_dir", None):
        shutil.rmtree(context._temp_dir, ignore_errors=True)  # the JVM, which would do it, goes on
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
