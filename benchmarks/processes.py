"""Run a program and weigh it: wall time, processor time, and the memory of all its processes together."""

from __future__ import annotations

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


class Usage(NamedTuple):
    """What a program and its descendants took."""

    seconds: float  # wall, from start to exit
    cpu_seconds: float  # of all processes
    peak_bytes: int  # largest sum of proportional set sizes: a page shared by n processes counts once


class ProgramError(Exception):
    """A measured program failed."""


def environment() -> dict[str, str]:
    """The environment of measured programs: the project's modules, and byte code that may be kept."""
    variables = dict(os.environ)
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling every import anew would be most of a short run
    variables["PYTHONPATH"] = os.pathsep.join(str(ROOT / folder) for folder in ("", "include", "plugins"))
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])
    variables["PYSPARK_PYTHON"] = variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return variables


def run_measured(command: Sequence[str], *, log: Path, variables: dict[str, str] | None = None) -> Usage:
    """Run a program to its end; its output goes to a log file.

    Parameters
    ----------
    command : sequence of str
    log : Path
        Takes standard output and errors.
    variables : dict, optional
        Environment in place of `environment()`.

    Raises
    ------
    ProgramError
        If it fails; the message holds the end of its log.
    """
    started = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=variables or environment(), stdout=output, stderr=subprocess.STDOUT
        )
        scale = _Scale(process.pid)
        scale.start()
        try:
            _, status, resources = os.wait4(process.pid, 0)
        finally:
            scale.stop()
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise ProgramError(f"{' '.join(command)} ended with {process.returncode}; the end of {log}:\n{tail}")
    # What was waited for is exact, but workers killed at the end are not in it; what was sampled has them.
    waited = resources.ru_utime + resources.ru_stime
    return Usage(seconds, max(waited, scale.cpu_seconds), scale.peak_bytes)


class _Scale(threading.Thread):
    """Samples the memory and the processor time of a process tree."""

    def __init__(self, root: int) -> None:
        super().__init__(name="scale", daemon=True)
        self.peak_bytes = 0
        self._cpu: dict[tuple[int, float], float] = {}
        self._root = root
        self._ended = threading.Event()

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())

    def run(self) -> None:
        while not self._ended.is_set():
            sample = weigh(self._root)
            self.peak_bytes = max(self.peak_bytes, sample.bytes)
            self._cpu |= sample.cpu_seconds
            self._ended.wait(INTERVAL_SECONDS)

    def stop(self) -> None:
        self._ended.set()
        self.join()


class Sample(NamedTuple):
    """A process and its descendants at one moment."""

    bytes: int  # sum of proportional set sizes
    cpu_seconds: dict[tuple[int, float], float]  # (process id, start time) -> seconds so far


def weigh(root: int) -> Sample:
    """Return what the processes under `root` hold and have used; nothing if they ended meanwhile."""
    total, cpu = 0, {}
    try:
        tree = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    except psutil.NoSuchProcess:
        return Sample(0, {})
    for process in tree:
        try:
            total += proportional_bytes(process.pid)
            times = process.cpu_times()
            cpu[process.pid, process.create_time()] = times.user + times.system
        except (psutil.Error, OSError):
            continue
    return Sample(total, cpu)


def proportional_bytes(pid: int) -> int:
    """Return the proportional set size of a process in bytes; see smaps_rollup in proc(5)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
