"""The Spark session of a job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hipslake.errors import StepError
from hipslake.spark.settings import SESSION, door_settings, launch_settings
from hipslake.spark.worker_environment import handed_on


def open_session(name: str) -> SparkSession:
    """Return the session of this job, on the master that spark-submit was given.

    Without spark-submit (tests, a notebook) the master is `local[*,4]`: all cores, and up to four attempts
    at a task.

    Parameters
    ----------
    name : str
        Shown in the cluster's UI.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if "SPARK_ENV_LOADED" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = os.environ.get("HIPSLAKE_SPARK_MASTER", "local[*,4]")
        builder = builder.master(master).config(map=launch_settings(master))
    # Set here and not by spark-submit, whose command line everybody on the machine may read.
    of_workers = {f"spark.executorEnv.{key}": value for key, value in handed_on(os.environ).items()}
    builder = builder.config(map={**SESSION, **of_workers, **door_settings(os.environ)})
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def session_of_program(name: str) -> Iterator[SparkSession]:
    """The session that the program has, or one that ends with the block.

    Parameters
    ----------
    name : str
        Shown in Spark's UI, of a session that is opened.

    Raises
    ------
    StepError
        Spark does not start.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    try:
        session = open_session(name)
    except (PySparkException, OSError) as error:
        raise StepError(
            f"Spark does not start: {error}; `hipslake doctor` looks for Java and for what else it needs"
        ) from error
    try:
        yield session
    finally:
        session.stop()
