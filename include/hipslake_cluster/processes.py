"""Process supervision: background processes, recorded in a file, and ended together with all they started."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

MARK = "HIPSLAKE_SERVICE"
"""The variable by which processes are known that lost their parent and left its session."""

UMASK = int(os.environ.get("HIPSLAKE_UMASK", "077"), 8)
"""What others may not do with what services make: logs hold what tasks print, volumes what they keep."""

_LOOK_SECONDS = 0.2


class Background:
    """A process in a session of its own, and all that it started.

    Parameters
    ----------
    folder : Path
        Where its record and its log lie.
    mark : str
        Tells it from all others on this machine; in the environment of every process of it.
    record, log : str
        Names of the files in the folder.
    """

    def __init__(self, folder: Path, mark: str, *, record: str = "process.json", log: str = "log") -> None:
        self.folder = folder
        self.mark = mark
        self.record = folder / record
        self.log = folder / log  # what it has printed; starts are appended

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, **noted: str
    ) -> subprocess.Popen[bytes]:
        """Start it; what an earlier start left behind is killed first.

        Parameters
        ----------
        command : sequence of str
        environment : mapping of str to str
        cwd : Path
        **noted : str
            Goes into its record.
        """
        with self._alone():
            self._kill(self._remembered())
            with os.fdopen(
                os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666 & ~UMASK), "ab"
            ) as log:
                process = subprocess.Popen(
                    command,
                    env={**environment, MARK: self.mark},
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    umask=UMASK,
                )
            entry = {"pid": process.pid, "started": psutil.Process(process.pid).create_time(), **noted}
            fresh = self.record.with_name(f"{self.record.name}.new")
            fresh.write_text(json.dumps(entry))
            fresh.replace(self.record)
        return process

    def noted(self, name: str) -> str:
        """Return what its record says under a name; empty, if nothing."""
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(self.record.read_text()).get(name, ""))
        return ""

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        remembered = self._remembered()
        with contextlib.suppress(psutil.NoSuchProcess):
            if remembered is not None and _is_alive(psutil.Process(remembered)):
                return remembered
        return None

    def _remembered(self) -> int | None:
        """Return its process id, also after its end, as long as no other process has it."""
        try:
            entry = json.loads(self.record.read_text())
            pid, started = int(entry["pid"]), float(entry["started"])
        except (OSError, ValueError, KeyError):
            return None
        try:
            return pid if abs(psutil.Process(pid).create_time() - started) < 2 else None
        except psutil.NoSuchProcess:
            return pid

    @property
    def was_started(self) -> bool:
        """Whether it is meant to run: it was started, and not stopped since."""
        return self.record.exists()

    def family(self) -> list[psutil.Process]:
        """Return the processes that run: those of its session, those with its mark, and their descendants.

        A session outlives its leader, whose id is not used again before. Some programs write their title over
        their environment, or begin sessions of their own, so each of these alone would miss some.
        """
        return self._family(self._remembered())

    def _family(self, leader: int | None) -> list[psutil.Process]:
        found = {process.pid: process for process in psutil.process_iter() if _is_alive(process)}
        parents = {pid: _parent(process) for pid, process in found.items()}
        own = {pid for pid, process in found.items() if self._has(process, leader)}
        fresh = own
        while fresh:
            fresh = {pid for pid, parent in parents.items() if parent in fresh} - own
            own = own | fresh
        return [found[pid] for pid in sorted(own)]

    def _has(self, process: psutil.Process, leader: int | None) -> bool:
        try:
            return os.getsid(process.pid) == leader or process.environ().get(MARK) == self.mark
        except (psutil.Error, OSError):
            return False

    def stop(
        self, *, seconds: float = 10.0, sign: signal.Signals = signal.SIGTERM, term_seconds: float = 0.0
    ) -> int:
        """Ask it to end; end what is left after some seconds, and return how many processes that were.

        Parameters
        ----------
        seconds : float
            How long it has after the signal to its first process.
        sign : signal.Signals
        term_seconds : float
            How long all that is left has after SIGTERM, before SIGKILL; 0: no SIGTERM.
        """
        with self._alone():
            leader = self._remembered()
            self.record.unlink(missing_ok=True)  # from here on nobody starts it again
            if leader is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(leader, sign)
                self._wait(leader, seconds)
            left = self._family(leader)
            if left and term_seconds:
                for process in left:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.terminate()
                self._wait(leader, term_seconds)
            self._kill(leader)
            return len(left)

    def _wait(self, leader: int | None, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._family(leader) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)

    def kill(self) -> int:
        """Kill all of it with SIGKILL, as when a container is killed; how many processes that were."""
        with self._alone():
            return self._kill(self._remembered())

    def _kill(self, leader: int | None) -> int:
        killed: set[psutil.Process] = set()
        while family := self._family(leader):
            for process in family:  # who is stopped starts nobody any more, so nobody is missed
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
            family = list({*family, *self._family(leader)})
            killed.update(family)
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(family, timeout=5)
        return len(killed)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the service: nothing may start before all killed processes have ended."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.record.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return 0
