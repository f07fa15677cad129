"""How a Spark job runs its step: open the session, read the request, run, leave the report."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from pyspark.sql import SparkSession

from hipslake.spark.session import open_session
from hipslake.steps.report import Report, Request, execute_step, job_arguments

RequestT = TypeVar("RequestT", bound=Request)


def run_job(step: Callable[[RequestT, SparkSession], Report], request_type: type[RequestT]) -> NoReturn:
    """Run a Spark job's step and leave the process; its exit code says only whether the step went well.

    The report's `seconds` get one phase more, `session`: opening the Spark session.
    """
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    request_uri, report_uri = job_arguments()
    opened: list[SparkSession] = []

    def in_session(request: RequestT) -> Report:
        start = time.perf_counter()
        spark = open_session(f"hipslake {request.step} {request.run_uri.rsplit('/', 1)[-1]}")
        opened.append(spark)
        seconds = time.perf_counter() - start
        report = step(request, spark)
        return report.model_copy(update={"seconds": {"session": round(seconds, 4), **report.seconds}})

    code = execute_step(in_session, request_type, request_uri=request_uri, report_uri=report_uri)
    for spark in opened:
        spark.stop()
    sys.exit(code)
