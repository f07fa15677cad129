"""Processes that are forked with their imports behind them: tasks, and those that parse DAG files.

Airflow forks a task from a worker, and a worker from its scheduler. A task of hipslake imports the operators,
the library, numpy, pyarrow and Matplotlib, which takes longer than most steps of a small catalog. Here the
scheduler imports them once, before it forks its workers, and all share that memory. The DAG processor does so
with what DAG files import.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

log = logging.getLogger(__name__)

OURS = ("hipslake", "hipslake_airflow")
"""The packages that may be changed beside a process that has imported them."""

OF_TASKS = (
    "airflow.dag_processing.dagbag",  # reads the DAG file of a task
    "airflow.sdk.execution_time.task_runner",
    "hipslake.engine.this_process",
    "hipslake.steps.report",
    "pandas",  # pyarrow imports it when it first converts something
    "pyarrow.dataset",
    "pyarrow.parquet",
    "matplotlib.backends.backend_agg",  # of sky maps, as all of it
    "matplotlib.figure",
    "matplotlib.patheffects",
    "matplotlib.ticker",
    "hipslake.spark.attached",
    "hipslake.spark.engine",  # of steps in a Spark session that stands
)
"""What tasks import, beside pipelines and steps."""

ModuleFiles = dict[str, tuple[int, ...]]

_reseeds = False


class Imports:
    """What a process has imported for those that it forks.

    Parameters
    ----------
    modules : callable
        Gives the names of the modules.
    """

    def __init__(self, modules: Callable[[], Iterator[str]]) -> None:
        self._modules = modules
        self._found: ModuleFiles = {}  # empty: nothing was imported

    def refresh(self) -> None:
        """Import the modules, or import them anew if files of ours have changed since.

        What cannot be imported says so in the process that needs it. No thread of Python's may be started by
        it: those that are forked would lack it.
        """
        self.forget_changed()
        if self._found:
            return
        self._found = module_files()
        _reseed_in_forks()
        for module in self._modules():
            try:
                import_module(module)
            except Exception as error:
                log.warning("%s cannot be imported before it is needed: %s", module, error)

    def forget_changed(self) -> None:
        """If files of ours have changed, take our modules out of those that are loaded.

        Whoever needs one, imports it anew.
        """
        if not self._found or module_files() == self._found:
            return
        self._found = {}
        for name in [*sys.modules]:
            if name.partition(".")[0] in OURS and name != __name__:
                del sys.modules[name]


def _reseed_in_forks() -> None:
    """Have every process that is forked draw random numbers of its own, as one that imports numpy itself.

    numpy seeds its generator when it is imported, so all forks would draw the same numbers. Python's own
    generator is seeded anew in each fork by Python.
    """
    global _reseeds
    if not _reseeds:
        os.register_at_fork(after_in_child=_reseed)
        _reseeds = True


def _reseed() -> None:
    numbers = sys.modules.get("numpy.random")
    if numbers is not None:
        numbers.seed()


def of_dag_files() -> Iterator[str]:
    """Give the names of the modules that DAG files import."""
    from hipslake_airflow.all_dags import pipeline_names

    yield from (f"hipslake_airflow.pipelines.{name}" for name in pipeline_names())


def of_tasks() -> Iterator[str]:
    """Give the names of the modules that tasks import."""
    from hipslake.steps.registry import STEPS

    yield from OF_TASKS
    yield from of_dag_files()
    for step in STEPS.values():
        for name in (step.request, step.run, step.size):
            if name:
                yield f"hipslake.steps.{name.partition(':')[0]}"


def module_files() -> ModuleFiles:
    """Return the times of change and the size of every module file of our packages."""
    found: ModuleFiles = {}
    for package in OURS:
        spec = find_spec(package) if package not in sys.modules else sys.modules[package].__spec__
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in Path(folder).rglob("*.py"):
                try:
                    told = path.stat()
                except FileNotFoundError:  # gone since the folder was listed
                    continue
                found[str(path)] = told.st_mtime_ns, told.st_ctime_ns, told.st_size
    return found
