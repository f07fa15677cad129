"""How a Spark job runs its step: open the session, read the request, run, leave the report."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from threading import Thread
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from hipslake.spark.session import open_session
from hipslake.steps.report import Report, Request, execute_step, job_arguments

Step = Callable[[Any, SparkSession], Report]


def run_job(module: str, request_type: type[Request]) -> NoReturn:
    """Run a Spark job's step and leave the process; its exit code says only whether the step went well.

    Starting takes long on a small machine, so what can go on side by side does: the step's module is imported
    while the JVM starts, and the workers while the step looks at its files. The report's `seconds` get one
    phase more, `session`: opening the Spark session.

    Parameters
    ----------
    module : str
        Module with the step's `run(request, spark) -> report`.
    request_type : type
        The model of the step's request.
    """
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    request_uri, report_uri = job_arguments()
    with ThreadPoolExecutor(1) as pool:
        step: Future[Step] = pool.submit(lambda: import_module(module).run)

        def in_session(request: Request) -> Report:
            start = time.perf_counter()
            spark = open_session(f"hipslake {request.step} {request.run_uri.rsplit('/', 1)[-1]}")
            seconds = time.perf_counter() - start
            Thread(target=_start_workers, args=(spark,), name="start workers", daemon=True).start()
            try:
                report = step.result()(request, spark)
            finally:
                spark.stop()
            return report.model_copy(update={"seconds": {"session": round(seconds, 4), **report.seconds}})

        code = execute_step(in_session, request_type, request_uri=request_uri, report_uri=report_uri)
    sys.exit(code)


def _start_workers(spark: SparkSession) -> None:
    """Have as many Python workers as there are cores import what the tasks need."""
    import pyarrow as pa

    from hipslake.spark.exchange import run_tasks

    def load(number: int) -> Iterator[pa.RecordBatch]:
        import_module("hipslake.spark.write_tasks")
        import_module("healpy")
        yield pa.record_batch({"n": pa.array([number])})

    try:
        run_tasks(
            spark, sources=spark.sparkContext.defaultParallelism, task=load, result="n bigint"
        ).collect()
    except Exception:  # the step meets the same trouble, and says so
        logging.getLogger(__name__).debug("The workers did not start ahead of the step.", exc_info=True)
