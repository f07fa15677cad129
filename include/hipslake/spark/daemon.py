"""The process that Spark forks its Python workers from.

Spark's own daemon imports next to nothing, so that every worker spends its first seconds on importing pandas,
pyarrow and the library. This one imports them once, before it forks.

On a local master Spark starts this module. On a cluster, where the library arrives with the job, it starts
`hipslake.spark.executor_daemon`.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from hipslake.engine.own_process import tune_process
from hipslake.spark.installed import prefer_installed_pyspark

Worker = Callable[[socket.socket, bool], int]

IMPORTED = (
    "pandas",  # pyarrow imports it when it first converts something
    "pyarrow.dataset",  # and this at the first take
    "pyarrow.parquet",
    "pyspark.worker",
    "hipslake.steps.ingest.histogram_tasks",
    "hipslake.steps.ingest.write_tasks",
    "hipslake.catalog.verification",
)


def prepare() -> None:
    """Import what tasks need. No thread of ours or Python's may start: a fork would lose it.

    A package that is missing is told by the task that needs it, whose error comes back to the driver.
    """
    tune_process()
    prefer_installed_pyspark()
    for module in IMPORTED:
        with suppress(ImportError):
            import_module(module)
    with suppress(ImportError):
        import_module("hipslake.sphere.pixels").pixel_functions()
    gc.freeze()  # the workers share these pages as long as nobody walks over them


def ending_quietly(worker: Worker) -> Worker:
    """Let a worker end without a traceback when the process that it reports to is gone.

    A job does not stop its session, it ends, and its JVM with it. Workers that wait for the next task then
    find their socket closed, and Spark's daemon writes the traceback of each into the log of a job that went
    well.
    """

    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except ConnectionError:
            return 1

    return run


def serve() -> None:
    """Be the daemon: prepare, and fork a worker whenever Spark asks for one, until it asks for the end."""
    prepare()
    daemon = import_module("pyspark.daemon")
    daemon.__dict__["worker"] = ending_quietly(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    serve()
