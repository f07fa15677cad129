"""Processes forked from a clean one that has only imported the library, so that they start at once."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from tests.pictures import are_blank, draw_blank

CLEAN = multiprocessing.get_context("forkserver")
CLEAN.set_forkserver_preload(["tests.system.runs", "tests.pictures", "matplotlib.pyplot"])


def start(task: Callable[..., object], *arguments: Any) -> BaseProcess:
    """Start a process that has the environment which this one has now, and draws pictures as it does."""
    process = CLEAN.Process(target=_run, args=(dict(os.environ), are_blank(), task, *arguments))
    process.start()
    return process


def take_environment(environment: Mapping[str, str]) -> None:
    """Have this process know nothing but an environment: its own is that of whichever test forked first."""
    os.environ.clear()
    os.environ.update(environment)


def _run(environment: Mapping[str, str], blank: bool, task: Callable[..., object], *arguments: Any) -> None:
    take_environment(environment)
    with pytest.MonkeyPatch.context() as patch:
        if blank:
            draw_blank(patch)
        task(*arguments)
