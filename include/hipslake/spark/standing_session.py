"""Keep a Spark session that steps use one after another: `python -m hipslake.spark.standing_session SOCKET`.

The process starts another one, which holds the session and serves it at the socket (`hipslake.spark.attached`
tells how). That one ends, and is started anew, when its JVM has died, when who used the session went without
a word, when Spark failed a step or a step left something running, when the files of the library have changed,
when its workers were started for several sets of credentials, and after some hundred steps. It ends with the
process that started it, too.

The socket lies in a folder that nobody else may enter, and only processes of the same user are answered: who
has the session can run what he likes in its JVM.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from hipslake.engine.own_process import tune_process
from hipslake.spark.attached import library_stamp, peer_of, receive, send
from hipslake.spark.engine import SparkEngine
from hipslake.spark.jobs import start_workers
from hipslake.spark.session import open_session
from hipslake.spark.worker_environment import differing, digests_of

log = logging.getLogger(__name__)

MOST_STEPS = 200
"""After so many the session is started anew: a JVM keeps some of what each step leaves."""

MOST_ENVIRONMENTS = 4
"""Of Python workers: for each environment that steps hand on, a daemon of theirs stays in memory."""

_SETTLES_WITHIN = 5.0  # seconds for the tasks of a job that failed to end
_WAITS = 3.0  # seconds for the session, where another step has it; who asks waits no longer than 5
_SPEAKS_WITHIN = 5.0  # seconds for who has connected to say what he wants
_JVM_ENDS_WITHIN = 10.0  # seconds after SIGTERM
_PAUSES = (0.0, 1.0, 5.0, 30.0)  # seconds before the first, second, third and each later start in a row
_LONG_LIVED = 60.0  # seconds; after that a start is the first again
_FAILED = 1  # exit code of a session that ended by itself; 0: it was ended, to be opened anew
_LONGEST_PLACE = 100  # bytes; the kernel takes no more than 107 for the path of a socket

_ending = threading.Lock()


class StandingSession:
    """A session that is handed to one process at a time.

    Parameters
    ----------
    spark : SparkSession
        Of a JVM that this process has started.
    stamp : str
        Of the library, when this process began to import it.
    """

    def __init__(self, spark: SparkSession, stamp: str) -> None:
        self._spark, self._stamp = spark, stamp
        self._in_use = threading.Lock()
        self._steps = 0
        self._environment = digests_of(os.environ)  # which the JVM has taken over
        self._workers: set[str] = set()
        self._shuffles = self._next_shuffle()
        parameters = spark.sparkContext._gateway.java_parameters  # type: ignore[union-attr]
        self._told = {"port": parameters.port, "secret": parameters.auth_token}

    def serve(self, listener: socket.socket) -> NoReturn:
        """Answer whoever connects, until the process ends."""
        threading.Thread(target=self._watch, daemon=True).start()
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _watch(self) -> None:
        self._jvm.wait()
        end("its JVM has ended", self._jvm, code=_FAILED)

    @property
    def _jvm(self) -> subprocess.Popen[bytes]:
        jvm: subprocess.Popen[bytes] = self._spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        return jvm

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError):  # of who speaks no such language
            connection.settimeout(_SPEAKS_WITHIN)
            if peer_of(connection) != os.getuid():
                return
            question = receive(connection)
            if question is None:
                return
            if not self._in_use.acquire(timeout=_WAITS):
                send(connection, {"refused": "the Spark session that stands is in use"})
                return
            try:
                refused = self._why_not(question)
                if refused:
                    send(connection, {"refused": refused})
                else:
                    self._workers.add(str(question.get("workers", "")))
                    self._lend(connection, str(question.get("name", "")))
            finally:
                self._in_use.release()

    def _why_not(self, question: dict[str, object]) -> str:
        """The reason for which the session is not for who asks; empty: there is none."""
        if question.get("library") != self._stamp:
            if library_stamp() != self._stamp:
                end("the files of the library have changed", self._jvm, after=0.5)
            return "the Spark session that stands has another state of the library"
        master = self._spark.sparkContext.master
        if question.get("master") != master:
            return f"the Spark session that stands is of master {master}, not {question.get('master')}"
        wanted, given = question.get("environment"), question.get("handed on")
        if not isinstance(wanted, dict) or not isinstance(given, list):
            return "the environment is not told"
        if found := differing(wanted, self._environment, given):
            return f"the Spark session that stands has another environment: {', '.join(found)}"
        return ""

    def _lend(self, connection: socket.socket, name: str) -> None:
        """Hand the session over until it is given back; end with it otherwise."""
        start = time.monotonic()
        connection.settimeout(None)
        try:
            send(connection, self._told)
            told = receive(connection)
        except (OSError, ValueError):
            told = None
        if told is None:
            end(f"{name} went without a word; what it ran must not go on", self._jvm)
        elif told.get("spoiled"):
            end(f"Spark failed {name}", self._jvm)
        deadline = time.monotonic() + _SETTLES_WITHIN
        while self._is_busy():
            if time.monotonic() > deadline:
                end(f"{name} left jobs running", self._jvm)
            time.sleep(0.05)
        self._forget_shuffles()
        with contextlib.suppress(OSError):  # only who has failed waits for it
            send(connection, {"over": True})
        self._steps += 1
        log.info("%s: %.1f s", name, time.monotonic() - start)
        if self._steps >= MOST_STEPS:
            end(f"{self._steps} steps have used it", self._jvm)
        if len(self._workers) >= MOST_ENVIRONMENTS:
            end(f"it has workers of {len(self._workers)} environments", self._jvm)

    def _is_busy(self) -> bool:
        """Whether jobs, stages or tasks run; those of a stage that failed go on a while after it."""
        tracker = self._spark.sparkContext.statusTracker()
        if tracker.getActiveJobsIds() or tracker.getActiveStageIds():
            return True
        executors = self._scala.statusTracker().getExecutorInfos()
        return any(each.numRunningTasks() for each in executors)

    def _forget_shuffles(self) -> None:
        """Remove what shuffles left on disk.

        The gateway keeps the Java objects of steps that have ended, so that Spark's own cleaner never finds
        them out of use.
        """
        until, cleaner = self._next_shuffle(), self._scala.cleaner()
        for number in range(self._shuffles, until):
            if cleaner.isDefined():
                cleaner.get().doCleanupShuffle(number, True)
        self._shuffles = until + 1

    def _next_shuffle(self) -> int:
        return int(self._scala.newShuffleId())

    @property
    def _scala(self) -> Any:
        """The SparkContext of the JVM itself."""
        return self._spark.sparkContext._jsc.sc()  # type: ignore[union-attr]


def end(reason: str, jvm: subprocess.Popen[bytes], *, after: float = 0.0, code: int = 0) -> None:
    """End the JVM and this process, soon; does not return where `after` is 0.

    Parameters
    ----------
    reason : str
    jvm : subprocess.Popen
    after : float
        Seconds, in which an answer that is under way may be sent.
    code : int
        Exit code of this process.
    """
    if after:
        threading.Timer(after, end, (reason, jvm)).start()
        return
    if not _ending.acquire(blocking=False):  # another thread is about it, which sees to the exit code
        threading.Event().wait()
    log.info("The session ends: %s.", reason)
    jvm.terminate()
    try:
        jvm.wait(_JVM_ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        jvm.kill()
    os._exit(code)


def listen(place: Path) -> socket.socket:
    """Return a listening socket at a path; one that nobody listens at any more is replaced.

    Raises
    ------
    PermissionError
        If others may enter the folder, which is made where it is missing.
    OSError
        If the path is too long for a socket.
    """
    if len(os.fsencode(place)) > _LONGEST_PLACE:
        raise OSError(f"{place} is too long for a socket: {_LONGEST_PLACE} bytes at most")
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = place.parent.stat()
    if told.st_uid != os.getuid() or told.st_mode & 0o077:
        raise PermissionError(f"{place.parent} must be yours alone: chmod 700")
    listener = socket.socket(socket.AF_UNIX)
    fresh = place.with_name(f"{place.name}.new")
    fresh.unlink(missing_ok=True)
    listener.bind(str(fresh))
    fresh.chmod(0o600)
    listener.listen()
    fresh.replace(place)  # whoever finds it is answered
    return listener


def hold(place: Path) -> NoReturn:
    """Open the session, bring its workers up, and serve it."""
    stamp = library_stamp()
    tune_process()
    spark = open_session("hipslake")
    start_workers(SparkEngine(spark))
    listener = listen(place)
    threading.Thread(target=_end_with_keeper, args=(spark,), daemon=True).start()
    log.info("A session of master %s stands at %s.", spark.sparkContext.master, place)
    StandingSession(spark, stamp).serve(listener)


def _end_with_keeper(spark: SparkSession) -> None:
    """Wait for the end of the process that has started this one, and holds the other end of its input."""
    sys.stdin.read()
    end("its keeper has ended", spark.sparkContext._gateway.proc)  # type: ignore[union-attr]


def keep(place: Path) -> NoReturn:
    """Have a session held, again whenever it has ended, until this process is told to end."""
    signal.signal(signal.SIGTERM, _leave_off)
    signal.signal(signal.SIGINT, _leave_off)
    starts = 0
    while True:
        time.sleep(_PAUSES[min(starts, len(_PAUSES) - 1)])
        begun = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "hipslake.spark.standing_session", "--hold", str(place)],
            stdin=subprocess.PIPE,  # nothing is said; its end is that of this process
        )
        try:
            process.wait()
        except SystemExit:
            process.terminate()
            process.wait()
            place.unlink(missing_ok=True)
            raise
        ended = process.returncode == 0 or time.monotonic() - begun > _LONG_LIVED
        starts = 0 if ended else starts + 1


def _leave_off(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m hipslake.spark.standing_session", description="Keep a Spark session for steps."
    )
    parser.add_argument("--hold", action="store_true", help="hold one session, and end with it")
    parser.add_argument("place", type=Path, help="the socket; its folder is closed to others")
    given = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if given.hold:
        hold(given.place.absolute())
    keep(given.place.absolute())


if __name__ == "__main__":
    main()
