"""Process trees: started, watched, and killed with everything that they started."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_LOOK_SECONDS = 0.005


class Tree:
    """A process and all its descendants; its output goes to a file."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self.output = output

    def text(self) -> str:
        """What it has written so far."""
        return self.output.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], object], *, seconds: float = 120) -> None:
        """Wait until something is so; it is an error if the process ends before, or if it takes too long."""
        end = time.monotonic() + seconds
        while not condition():
            with suppress(subprocess.TimeoutExpired):
                code = self.process.wait(_LOOK_SECONDS)
                raise AssertionError(f"it ended too early, with code {code}:\n{self.text()}")
            assert time.monotonic() < end, f"nothing happened for {seconds} s:\n{self.text()}"

    def wait(self, *, seconds: float = 180) -> None:
        """Wait for its end, which must be a good one."""
        code = self.process.wait(seconds)
        assert code == 0, f"it ended with code {code}:\n{self.text()}"

    @property
    def has_stopped(self) -> bool:
        """Whether the process itself is stopped (SIGSTOP)."""
        return bool(psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all of it, and let it go on after the block; meanwhile the disk is as after a kill."""
        family = _stop(self.process.pid)
        yield
        for process in reversed(family):
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def kill(self) -> None:
        """Kill all of it with SIGKILL, as a machine that loses its power does."""
        if self.process.poll() is None:  # else its number may be another's by now
            kill_tree(self.process.pid)
            self.process.wait()


@contextmanager
def started(
    command: Sequence[str], output: Path, *, env: Mapping[str, str], cwd: Path | None = None
) -> Iterator[Tree]:
    """Start a process in a session of its own; whatever is left of it is killed at the end of the block."""
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=subprocess.STDOUT, env=dict(env), cwd=cwd, start_new_session=True
        )
    tree = Tree(process, output)
    try:
        yield tree
    finally:
        tree.kill()


def kill_tree(pid: int) -> None:
    """Kill a process of ours and its descendants; none of them can act on the death of another."""
    with suppress(psutil.NoSuchProcess):
        family = _stop(pid)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        end = time.monotonic() + 10
        while any(_is_running(process) for process in family) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)


def _stop(pid: int) -> list[psutil.Process]:
    """Stop a process and its descendants, and return them, parents before their children."""
    root = psutil.Process(pid)
    root.suspend()
    family = [root]
    while started := [child for child in root.children(recursive=True) if child not in family]:
        for process in started:  # one look for all of them: what is left running goes on working meanwhile
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        family += started  # who is stopped starts nobody: a look that finds no new one is the last
    return family


def _is_running(process: psutil.Process) -> bool:
    """Whether a process still does anything: where nobody asks for its exit code, it stays as a zombie."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
