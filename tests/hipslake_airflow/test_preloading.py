"""Processes that are forked with their imports behind them, and what they do when a module has changed."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from airflow.configuration import conf
from airflow.executors.executor_loader import ExecutorLoader
from airflow.executors.local_executor import LocalExecutor
from hipslake_airflow import preloading
from hipslake_airflow.preloading import Imports
from hipslake_airflow.preloading_executor import PreloadingExecutor, WatchedQueue

FORK = get_context("fork")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that stands in for ours; gone again at the end."""
    folder = tmp_path / "stand_in"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "told.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(preloading, "OURS", ("stand_in",))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # within a second, a change of one size is not seen
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "stand_in"]:
        del sys.modules[name]


def imports() -> Imports:
    return Imports(lambda: iter(["stand_in.told", "stand_in.missing"]))


def rewrite(path: Path, text: str) -> None:
    """Change a file, seen by its time also where both times are of one tick of the clock."""
    path.write_text(text)
    told = path.stat()
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns + 1_000_000_000))
    importlib.invalidate_caches()


def value() -> int:
    return int(importlib.import_module("stand_in.told").VALUE)


def test_what_can_be_imported_is_and_the_rest_is_said(
    package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    imports().refresh()
    assert "stand_in.told" in sys.modules
    assert "stand_in.missing cannot be imported before it is needed" in caplog.text


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_tasks_get_what_has_changed_since(package: Path, change: str) -> None:
    (package / "other.py").touch()
    loaded, queue = imports(), FORK.SimpleQueue()
    loaded.refresh()
    watched = WatchedQueue(queue, loaded)
    before = sys.modules["stand_in.told"]
    for task in ("first", "second", "third"):
        queue.put(task)
    assert watched.get() == "first"
    assert sys.modules["stand_in.told"] is before
    if change == "changed":
        rewrite(package / "told.py", "VALUE = 2\n")
    elif change == "added":
        (package / "more.py").touch()
    else:
        (package / "other.py").unlink()
    assert watched.get() == "second"
    assert not [name for name in sys.modules if name.partition(".")[0] == "stand_in"]
    assert value() == (2 if change == "changed" else 1)
    after = sys.modules["stand_in.told"]
    assert watched.get() == "third"  # in a worker nothing of ours is imported, so nothing is looked for
    assert sys.modules["stand_in.told"] is after


def test_who_parses_dag_files_imports_anew_after_a_change(package: Path) -> None:
    loaded = imports()
    loaded.refresh()
    rewrite(package / "told.py", "VALUE = 2\n")
    loaded.refresh()
    assert sys.modules["stand_in.told"].VALUE == 2
    before = sys.modules["stand_in.told"]
    loaded.refresh()
    assert sys.modules["stand_in.told"] is before


def test_a_task_that_is_running_keeps_its_modules(package: Path) -> None:
    """The worker forgets; a process that it has forked before does not notice."""
    loaded, told, go = imports(), FORK.SimpleQueue(), FORK.Event()
    loaded.refresh()

    def task() -> None:
        go.wait()
        told.put(value())

    process = FORK.Process(target=task)
    process.start()
    rewrite(package / "told.py", "VALUE = 2\n")
    loaded.forget_changed()
    go.set()
    process.join()
    assert told.get() == 1


def test_all_that_tasks_need_can_be_imported_and_starts_no_thread_of_python() -> None:
    """In a process of its own: this one has long imported much of it."""
    program = """
import importlib, sys, threading
from hipslake_airflow.preloading import of_dag_files, of_tasks
for name in of_dag_files():
    importlib.import_module(name)
print(*({"numpy", "pyarrow", "pandas", "pyspark.sql", "matplotlib"} & set(sys.modules)))
for name in of_tasks():
    importlib.import_module(name)
needed = {"numpy", "pyarrow.parquet", "pyspark.sql", "matplotlib.figure"}
print(threading.active_count(), *(needed - set(sys.modules)))
"""
    path = os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")])
    given = os.environ | {"PYTHONPATH": path.rstrip(os.pathsep)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-2:] == ["", "1"]


def test_forks_draw_random_numbers_of_their_own() -> None:
    """As processes do that import numpy themselves."""
    program = """
import os
from hipslake_airflow.preloading import Imports
for _ in range(2):
    Imports(lambda: iter(["numpy.random"])).refresh()
for _ in range(4):
    if os.fork() == 0:
        import random, numpy
        drawn = numpy.random.randint(1 << 62), numpy.random.RandomState().randint(1 << 62)
        print(*drawn, random.random(), flush=True)
        os._exit(0)
    os.wait()
"""
    path = os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")])
    given = os.environ | {"PYTHONPATH": path.rstrip(os.pathsep)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True
    )
    drawn = [line.split() for line in done.stdout.splitlines()[-4:]]
    for numbers in zip(*drawn, strict=True):
        assert len(set(numbers)) == 4


def test_airflow_finds_the_executor_and_takes_it_for_a_local_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "hipslake_airflow.preloading_executor.PreloadingExecutor")
    assert conf.get("core", "executor").endswith("PreloadingExecutor")
    found, _ = ExecutorLoader.import_default_executor_cls()
    assert found is PreloadingExecutor
    assert found.is_local
    assert issubclass(found, LocalExecutor)


def test_workers_are_forked_after_the_imports(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one() -> Iterator[str]:
        yield "stand_in.told"

    monkeypatch.setattr("hipslake_airflow.preloading_executor.of_tasks", one)
    told: Any = FORK.SimpleQueue()

    def work(**given: Any) -> None:
        given["input"].get()
        told.put("stand_in.told" in sys.modules)

    monkeypatch.setattr("airflow.executors.local_executor._run_worker", work)
    executor = PreloadingExecutor(parallelism=2)
    executor.start()
    try:
        assert len(executor.workers) == 2
        for change in (False, True):
            if change:
                rewrite(package / "told.py", "VALUE = 2\n")
            executor.activity_queue.put("a task")  # type: ignore[arg-type]
            assert told.get() is not change
    finally:
        for process in executor.workers.values():
            process.join()
