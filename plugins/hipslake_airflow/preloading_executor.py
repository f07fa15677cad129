"""A local executor whose tasks start with their imports behind them."""

from __future__ import annotations

from multiprocessing import SimpleQueue
from typing import Any

from airflow.executors.local_executor import LocalExecutor

from hipslake_airflow.preloading import Imports, of_tasks


class PreloadingExecutor(LocalExecutor):
    """Airflow's LocalExecutor, which imports what tasks need before it forks its workers.

    What was changed since is not kept from tasks: a worker that finds a module of ours changed forgets all of
    them, so that tasks import them anew, as with LocalExecutor. What comes from other packages is as it was
    when the scheduler started.
    """

    def start(self) -> None:
        """Import, then fork the workers."""
        self._imports = Imports(of_tasks)
        if self.is_mp_using_fork:  # a worker that is spawned has nothing of what was imported
            self._imports.refresh()
        super().start()

    def _spawn_worker(self) -> None:
        shared = self.activity_queue
        self.activity_queue = WatchedQueue(shared, self._imports)  # type: ignore[assignment]
        try:
            super()._spawn_worker()
        finally:
            self.activity_queue = shared


class WatchedQueue:
    """The queue that a worker takes its tasks from; before it gives one, it looks for changed modules.

    Parameters
    ----------
    queue : SimpleQueue
    imports : Imports
    """

    def __init__(self, queue: SimpleQueue[Any], imports: Imports) -> None:
        self._queue, self._imports = queue, imports

    def get(self) -> Any:
        """Wait for a task and return it."""
        task = self._queue.get()
        self._imports.forget_changed()
        return task
