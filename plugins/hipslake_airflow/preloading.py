"""A local executor whose tasks start with their imports behind them.

Airflow forks a task from a worker, and a worker from its scheduler. A task of hipslake imports the operators,
the library, numpy, pyarrow and Matplotlib, which takes longer than most steps of a small catalog. Here the
scheduler imports them once, before it forks its workers, and all share that memory.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import SimpleQueue
from pathlib import Path
from typing import Any

from airflow.executors.local_executor import LocalExecutor

log = logging.getLogger(__name__)

OURS = ("hipslake", "hipslake_airflow")
"""The packages that may be changed beside a scheduler that runs."""

OF_TASKS = (
    "airflow.dag_processing.dagbag",  # reads the DAG file of a task
    "airflow.sdk.execution_time.task_runner",
    "hipslake_airflow.all_dags",
    "hipslake.engine.this_process",
    "hipslake.steps.report",
    "pandas",  # pyarrow imports it when it first converts something
    "pyarrow.dataset",
    "pyarrow.parquet",
    "matplotlib.backends.backend_agg",  # of sky maps
    "matplotlib.ticker",
    "hipslake.spark.attached",
    "hipslake.spark.engine",  # of steps in a Spark session that stands
)
"""What tasks import, beside pipelines and steps."""

Stamps = dict[str, tuple[int, int]]


class PreloadingExecutor(LocalExecutor):
    """Airflow's LocalExecutor, which imports what tasks need before it forks its workers.

    A scheduler that has read our modules does not take from tasks what was changed since: a worker that finds
    a module of ours changed forgets all of them, so that tasks import them anew, as with LocalExecutor. What
    comes from other packages is as it was when the scheduler started.
    """

    def start(self) -> None:
        """Import, then fork the workers."""
        self._loaded = stamps()
        if self.is_mp_using_fork:  # a worker that is spawned has nothing of what was imported
            preload()
        super().start()

    def _spawn_worker(self) -> None:
        shared = self.activity_queue
        self.activity_queue = _Watched(shared, self._loaded)  # type: ignore[assignment]
        try:
            super()._spawn_worker()
        finally:
            self.activity_queue = shared


class _Watched:
    """The queue that a worker takes its tasks from; before it gives one, it looks for changed modules."""

    def __init__(self, queue: SimpleQueue[Any], seen: Stamps) -> None:
        self._queue, self._seen = queue, seen

    def get(self) -> Any:
        """Wait for a task and return it."""
        task = self._queue.get()
        if self._seen and stamps() != self._seen:
            forget()
            self._seen = {}  # nothing of ours is loaded any more, so nothing can be out of date
        return task


def preload() -> None:
    """Import what the tasks of all pipelines import. What cannot be imported says so in the task that needs it.

    No thread of Python's may be started by it: the processes that are forked would lack it.
    """
    for module in modules():
        try:
            import_module(module)
        except Exception as error:
            log.warning("%s cannot be imported before tasks are: %s", module, error)


def modules() -> Iterator[str]:
    """Give the names of the modules that tasks need, those of Airflow and of the pipelines first."""
    from hipslake.steps.registry import STEPS

    from hipslake_airflow.all_dags import pipeline_names

    yield from OF_TASKS
    yield from (f"hipslake_airflow.pipelines.{name}" for name in pipeline_names())
    for step in STEPS.values():
        for name in (step.request, step.run, step.size):
            if name:
                yield f"hipslake.steps.{name.partition(':')[0]}"


def stamps() -> Stamps:
    """Return the time of change and the size of every module file of our packages."""
    found: Stamps = {}
    for package in OURS:
        spec = find_spec(package) if package not in sys.modules else sys.modules[package].__spec__
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in Path(folder).rglob("*.py"):
                try:
                    told = os.stat(path)
                except FileNotFoundError:  # gone since the folder was listed
                    continue
                found[str(path)] = told.st_mtime_ns, told.st_size
    return found


def forget() -> None:
    """Take our modules, but this one, out of those that are loaded: whoever needs one imports it anew."""
    for name in [*sys.modules]:
        if name.partition(".")[0] in OURS and name != __name__:
            del sys.modules[name]
