"""Processes that are killed while they write to a store, at a chosen write or at that of a commit."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec

from tests.catalog.leftovers import missing, orphans
from tests.stores.proxy import Proxy
from tests.stores.s3_server import S3Server
from tests.system import forked

COMMIT = re.compile(r"/catalogs/stars/_versions/\d{8}\.json")
_SECONDS = 120


@dataclass
class Hunter:
    """Kills the process that writes by a proxy, once its n-th write is on its way, or that of a commit.

    A write is passed on to the server all the same: what was sent before a process died arrives.
    """

    at: float  # of the writes, from 1; `math.inf` spares it
    commit: bool = False  # the write of a new version, whichever that is
    pid: int = 0
    writes: int = 0
    killed: str = ""  # the request that was the last
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, method: str, path: str) -> None:
        if method not in ("PUT", "POST", "DELETE"):
            return
        with self.lock:
            self.writes += 1
            due = COMMIT.search(path) is not None if self.commit else self.writes >= self.at
            if due and not self.killed:
                self.killed = f"{method} {path}"
                os.kill(self.pid, signal.SIGKILL)


def killed(proxy: Proxy, hunter: Hunter, task: Callable[..., object], *arguments: Any) -> bool:
    """Run a task in a process of its own, which may be killed; whether it was.

    A process that was killed is started again, as a task is retried: in this process, and to its end.
    """
    with S3Server(proxy.endpoint).reached():
        process = forked.start(task, *arguments)
    assert process.pid
    hunter.pid = process.pid
    proxy.watch = hunter
    process.join(_SECONDS)
    proxy.watch = None
    assert process.exitcode == (-signal.SIGKILL if hunter.killed else 0), hunter.killed
    if hunter.killed:
        task(*arguments)
    return bool(hunter.killed)


def assert_nothing_is_left_over(warehouse: str, copy: Path) -> None:
    """Hold what lies in the store against what versions name, in a copy on this machine."""
    fsspec.filesystem("s3").get(f"{warehouse}/catalogs/stars/", f"{copy}/", recursive=True)
    assert missing(copy) == orphans(copy) == set()
