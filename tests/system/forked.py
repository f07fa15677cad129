"""Processes forked from a clean one that has only imported the library, so that they start at once."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from typing import Any

CLEAN = multiprocessing.get_context("forkserver")
CLEAN.set_forkserver_preload(["tests.system.runs", "hipslake.catalog.hats.skymap", "matplotlib.pyplot"])


def start(task: Callable[..., object], *arguments: Any) -> BaseProcess:
    """Start a process that has the environment which this one has now."""
    process = CLEAN.Process(target=_run, args=(dict(os.environ), task, *arguments))
    process.start()
    return process


def take_environment(environment: Mapping[str, str]) -> None:
    """Have this process know nothing but an environment: its own is that of whichever test forked first."""
    os.environ.clear()
    os.environ.update(environment)


def _run(environment: Mapping[str, str], task: Callable[..., object], *arguments: Any) -> None:
    take_environment(environment)
    task(*arguments)
