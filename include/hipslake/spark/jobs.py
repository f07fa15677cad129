"""How a Spark job runs its step: open the session, read the request, run, leave the report."""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, NoReturn

from hipslake.engine.own_process import tune_process
from hipslake.spark.driver_attempt import DriverAttempt
from hipslake.spark.installed import prefer_installed_pyspark
from hipslake.steps.registry import STEPS
from hipslake.steps.report import Report, Request, execute_step, job_arguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hipslake.spark.engine import SparkEngine


def run_job(name: str) -> NoReturn:
    """Run a Spark job's step and leave the process; its exit code says only whether the step went well.

    The step begins while the session is being opened, and waits where it first needs it: what it does in
    the driver before, such as listing and reading metadata, takes no time of its own. The report's `seconds`
    get one phase more, `session`: opening the session and starting its Python workers.

    Parameters
    ----------
    name : str
        Of the step, in `hipslake.steps.registry`.
    """
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    arguments = job_arguments()
    tune_process()
    prefer_installed_pyspark()
    with ThreadPoolExecutor(1) as pool:
        function = pool.submit(STEPS[name].function)

        def in_session(request: Request) -> Report:
            from hipslake.spark.engine import SparkEngine
            from hipslake.spark.session import open_session

            start = time.perf_counter()
            opening: Future[SparkSession] = Future()
            attempt = DriverAttempt.of(request, arguments.attempt)
            with attempt.at_work():
                working = copy_context()  # in which files of the run folder are kept
                running = pool.submit(working.run, lambda: function.result()(request, SparkEngine(opening)))
                try:  # here and not in the pool: Spark cancels its jobs at a signal to the main thread only
                    spark = open_session(f"hipslake {request.step} {request.run_uri.rsplit('/', 1)[-1]}")
                    attempt.started(spark.sparkContext.applicationId)
                    start_workers(SparkEngine(spark))
                except BaseException as error:
                    opening.set_exception(error)
                    raise
                seconds = time.perf_counter() - start
                opening.set_result(spark)
                report = running.result()
            return report.model_copy(update={"seconds": {"session": round(seconds, 4), **report.seconds}})

        code = execute_step(
            in_session,
            STEPS[name].request_model,
            request_uri=arguments.request_uri,
            report_uri=arguments.report_uri,
            is_wanted=lambda request: DriverAttempt.of(request, arguments.attempt).is_wanted(),
        )
    sys.exit(code)  # Spark's own shutdown hook stops the session, a second sooner than `spark.stop()` returns


def start_workers(engine: SparkEngine) -> None:
    """Run a task that does nothing on every core: from then on workers are up, and the JVM knows the way."""
    import pyarrow as pa

    nothing = pa.schema([("n", pa.int64())])
    engine.run(lambda number: [pa.record_batch([[number]], nothing)], tasks=engine.cores, result=nothing)
