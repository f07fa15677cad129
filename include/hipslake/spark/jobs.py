"""How a Spark job runs its step: open the session, read the request, run, leave the report."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from hipslake.spark.installed import prefer_installed_pyspark
from hipslake.spark.kernel import use_small_pages
from hipslake.steps.report import Report, Request, execute_step, job_arguments
from hipslake.steps.run import RunFolder, StartedJob

if TYPE_CHECKING:
    from hipslake.spark.engine import SparkEngine

Step = Callable[[Any, "SparkEngine"], Report]


def run_job(module: str, request_type: type[Request]) -> NoReturn:
    """Run a Spark job's step and leave the process; its exit code says only whether the step went well.

    The report's `seconds` get one phase more, `session`: opening the Spark session and starting its Python
    workers. The step's module is imported meanwhile.

    Parameters
    ----------
    module : str
        Module with the step's `run(request, engine) -> report`.
    request_type : type
        The model of the step's request.
    """
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    request_uri, report_uri = job_arguments()
    use_small_pages()
    prefer_installed_pyspark()
    with ThreadPoolExecutor(1) as pool:
        step: Future[Step] = pool.submit(lambda: import_module(module).run)

        def in_session(request: Request) -> Report:
            from hipslake.spark.engine import SparkEngine
            from hipslake.spark.session import open_session

            start = time.perf_counter()
            spark = open_session(f"hipslake {request.step} {request.run_uri.rsplit('/', 1)[-1]}")
            engine = SparkEngine(spark)
            told = StartedJob(application=spark.sparkContext.applicationId)
            request.folder.write(RunFolder.job_path(request.step), told)
            _start_workers(engine)
            run = step.result()
            seconds = time.perf_counter() - start
            report = run(request, engine)
            return report.model_copy(update={"seconds": {"session": round(seconds, 4), **report.seconds}})

        code = execute_step(in_session, request_type, request_uri=request_uri, report_uri=report_uri)
    sys.exit(code)  # Spark's own shutdown hook stops the session, a second sooner than `spark.stop()` returns


def _start_workers(engine: SparkEngine) -> None:
    """Run a task that does nothing on every core: from then on workers are up, and the JVM knows the way."""
    import pyarrow as pa

    nothing = pa.schema([("n", pa.int64())])
    engine.run(lambda number: [pa.record_batch([[number]], nothing)], tasks=engine.cores, result=nothing)
