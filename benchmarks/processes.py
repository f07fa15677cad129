"""Run a program and weigh it: wall time, processor time, and the memory of all its processes together."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
INTERVAL_SECONDS = 1.0  # weighing walks page tables: at five times a second it takes 4% of a core
SHORTEST_INTERVAL_SECONDS = 0.05
KILL_SECONDS = 30.0
BLOCK_BYTES = 512  # of getrusage(2)
CEILING_INTERVAL_SECONDS = 0.1  # what a ceiling needs is a counter of the kernel


class Usage(NamedTuple):
    """What a program and its descendants took."""

    seconds: float  # wall, from start to exit
    cpu_seconds: float  # of all processes
    peak_bytes: int  # largest sum of proportional set sizes: a page shared by n processes counts once
    disk_bytes: int = 0  # written to disk by all processes


class ProgramError(Exception):
    """A measured program failed."""


class CeilingError(ProgramError):
    """A measured program took more memory than it was allowed, and was ended for it."""


class TimeLimitError(ProgramError):
    """A measured program took longer than it was allowed, and was ended for it."""


def environment() -> dict[str, str]:
    """The environment of measured programs: the project's modules, and byte code that may be kept."""
    variables = dict(os.environ)
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling every import anew would be most of a short run
    variables["PYTHONPATH"] = os.pathsep.join(str(ROOT / folder) for folder in ("", "include", "plugins"))
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])
    variables["PYSPARK_PYTHON"] = variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return variables


def run_measured(
    command: Sequence[str],
    *,
    log: Path,
    variables: dict[str, str] | None = None,
    ceiling: int | None = None,
    time_limit: float | None = None,
) -> Usage:
    """Run a program to its end; its output goes to a log file.

    Parameters
    ----------
    command : sequence of str
    log : Path
        Takes standard output and errors.
    variables : dict, optional
        Environment in place of `environment()`.
    ceiling : int, optional
        Bytes that all processes together may hold of memory that the kernel cannot take back: see
        `held_bytes`. Who goes over it is ended, as a control group with `memory.max` would end it.
    time_limit : float, optional
        Seconds.

    Raises
    ------
    CeilingError, TimeLimitError
        If it went over what it was allowed.
    ProgramError
        If it fails; the message holds the end of its log.
    """
    started = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=variables or environment(), stdout=output, stderr=subprocess.STDOUT
        )
        scale = _Scale(process.pid, ceiling, time_limit)
        scale.start()
        try:
            _, status, resources = os.wait4(process.pid, 0)
        finally:
            scale.stop()
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if scale.verdict is not None:
        raise scale.verdict
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise ProgramError(f"{' '.join(command)} ended with {process.returncode}; the end of {log}:\n{tail}")
    # What was waited for is exact, but workers killed at the end are not in it; what was sampled has them.
    waited = resources.ru_utime + resources.ru_stime
    disk_bytes = max(resources.ru_oublock * BLOCK_BYTES, scale.disk_bytes)
    return Usage(seconds, max(waited, scale.cpu_seconds), scale.peak_bytes, disk_bytes)


class _Scale(threading.Thread):
    """Samples the memory and the processor time of a process tree, and ends one that takes too much."""

    def __init__(self, root: int, ceiling: int | None, time_limit: float | None) -> None:
        super().__init__(name="scale", daemon=True)
        self.peak_bytes = self.disk_bytes = 0
        self.verdict: ProgramError | None = None
        self._cpu: dict[tuple[int, float], float] = {}
        self._root = root
        self._ceiling = ceiling
        self._time_limit = time_limit
        self._ended = threading.Event()

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())

    def run(self) -> None:
        started = weighed = time.perf_counter()
        self._weigh()
        interval = SHORTEST_INTERVAL_SECONDS
        while not self._ended.wait(
            interval if self._ceiling is None else min(interval, CEILING_INTERVAL_SECONDS)
        ):
            now = time.perf_counter()
            if now - weighed >= interval:
                self._weigh()
                weighed = now
                # What ends within a second has a peak too; it is small yet, and weighed in no time.
                interval = min(INTERVAL_SECONDS, max(SHORTEST_INTERVAL_SECONDS, (now - started) / 5))
            self.verdict = self._judge(now - started)
            if self.verdict is not None:
                _kill(self._root)
                return

    def _weigh(self) -> None:
        sample = weigh(self._root)
        self.peak_bytes = max(self.peak_bytes, sample.bytes)
        self._cpu |= sample.cpu_seconds
        self.disk_bytes = max(self.disk_bytes, sample.disk_bytes)

    def _judge(self, seconds: float) -> ProgramError | None:
        if self._time_limit is not None and seconds > self._time_limit:
            return TimeLimitError(f"took more than {self._time_limit:g} s")
        # Pages that forked processes share count several times in the cheap sum: only the dear one condemns.
        if self._ceiling is not None and held_at_most(self._root) > self._ceiling:
            held = held_bytes(self._root)
            self.peak_bytes = max(self.peak_bytes, held)
            if held > self._ceiling:
                return CeilingError(f"held {held / 2**30:.2f} GiB after {seconds:.0f} s")
        return None

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _tree(root: int) -> list[psutil.Process]:
    try:
        return [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill(root: int) -> None:
    """End a process and its descendants, and wait until they are: nobody runs beside a dying one."""
    tree = _tree(root)
    for process in tree:
        with contextlib.suppress(psutil.Error):
            process.kill()
    given_up = time.perf_counter() + KILL_SECONDS
    while any(map(_runs, tree)) and time.perf_counter() < given_up:
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


class Sample(NamedTuple):
    """A process and its descendants at one moment."""

    bytes: int  # sum of proportional set sizes
    cpu_seconds: dict[tuple[int, float], float]  # (process id, start time) -> seconds so far
    disk_bytes: int  # written to disk so far, also by children that have ended


def weigh(root: int) -> Sample:
    """Return what the processes under `root` hold and have used; nothing if they ended meanwhile."""
    total, cpu, disk = 0, {}, 0
    for process in _tree(root):
        try:
            total += proportional_bytes(process.pid)
            times = process.cpu_times()
            identity = process.pid, process.create_time()
            cpu[identity] = times.user + times.system
            disk += (
                process.io_counters().write_bytes
            )  # the kernel adds those of children that were waited for
        except (psutil.Error, OSError):
            continue
    return Sample(total, cpu, disk)


def held_at_most(root: int) -> int:
    """Bound `held_bytes` from above, cheaply: pages that forked processes still share count in each."""
    return sum(_told(process.pid, "status", ("RssAnon:", "RssShmem:")) for process in _tree(root))


def held_bytes(root: int) -> int:
    """Return the bytes that the processes under `root` hold and the kernel cannot take back.

    Anonymous and shared memory, each page once. Pages of files are left out: the kernel drops them at need.
    """
    return sum(_told(process.pid, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:")) for process in _tree(root))


def proportional_bytes(pid: int) -> int:
    """Return the proportional set size of a process in bytes; see smaps_rollup in proc(5)."""
    return _told(pid, "smaps_rollup", ("Pss:",))


def _told(pid: int, file: str, names: tuple[str, ...]) -> int:
    """Add up lines of a file of proc(5); 0 if the process ended meanwhile."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
