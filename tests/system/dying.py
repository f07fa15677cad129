"""Processes that die of SIGKILL at a chosen moment: right before their n-th change of a folder.

Python tells audit hooks what it is about to do to the file system, so every moment between two changes can be
chosen, without a clock. What a killed process leaves is what lay there when it died, so one process can also
leave a copy of the folder for every moment.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.system import forked

_CHANGES = {"os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
_IN_FOLDERS = {"os.remove", "os.rmdir"}  # with the descriptor of a folder, if the path is relative to one
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_COPIES = 20  # tries
_SECONDS = 300  # for a task of which every moment is copied


class Change(NamedTuple):
    """A change of a folder: the audit event, and the path that comes to be (or goes)."""

    event: str
    path: str


def changes(root: str, copies: str | None, task: Callable[..., object], *arguments: Any) -> list[Change]:
    """Run a task to its end in a process of its own; what it changed below the root, in order.

    `<copies>/<n>` is the root as it was right before change n; with None it is not copied.
    """
    receiving, sending = forked.CLEAN.Pipe(duplex=False)
    _run(_record, (sending, root, copies, task, arguments), 0)
    found: list[Change] = receiving.recv()
    return found


def killed_before(change: int, root: str, task: Callable[..., object], *arguments: Any) -> None:
    """Run a task in a process that dies right before its n-th change (from 0) below the root."""
    _run(_die, (change, root, task, arguments), -signal.SIGKILL)


def _run(task: Callable[..., object], arguments: tuple[Any, ...], code: int) -> None:
    process = forked.start(task, *arguments)
    process.join(_SECONDS)
    if process.is_alive():
        process.kill()
    assert process.exitcode == code


def _copied(root: str, place: str) -> None:
    """Copy a folder; once more where another thread has just changed something in it."""
    for _ in range(_COPIES):
        try:
            shutil.copytree(root, place, symlinks=True)
            return
        except shutil.Error:
            shutil.rmtree(place)
    shutil.copytree(root, place, symlinks=True)


def _record(
    sending: Any, root: str, copies: str | None, task: Callable[..., object], arguments: tuple[Any, ...]
) -> None:
    found: list[Change] = []
    one_at_a_time = threading.Lock()  # some steps write in several threads

    def copy(change: Change) -> None:
        with one_at_a_time:
            if copies is not None:
                _copied(root, f"{copies}/{len(found)}")
            found.append(change)

    on_change(root, copy)
    task(*arguments)
    sending.send(found)


def _die(change: int, root: str, task: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    left = iter(range(change))

    def count(_: Change) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    on_change(root, count)
    task(*arguments)


def on_change(root: str, act: Callable[[Change], None]) -> None:
    """Have this process call a function right before each of its changes below a folder, from now on."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if threading.current_thread().name.startswith("heartbeat "):
            return  # how many beats there are depends on the clock
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & _WRITING:
                return
            path = arguments[0]
        elif event in _CHANGES:
            path = arguments[1] if event in ("os.rename", "os.link", "os.symlink") else arguments[0]
            if event in _IN_FOLDERS and arguments[1] >= 0:  # as the removal of a tree names its files
                path = Path(f"/proc/self/fd/{arguments[1]}").readlink() / path
        else:
            return
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(root):
            act(Change(event, os.fspath(path)))

    sys.addaudithook(hook)
