"""The Spark session of a job."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from hipslake.spark.settings import SESSION, door_settings, launch_settings
from hipslake.storage.access import for_workers
from hipslake.storage.timeouts import set_in


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
        builder = builder.master(master)
        for key, value in launch_settings(master).items():
            builder = builder.config(key, value)
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    for name, value in for_workers(os.environ).items():
        # Set here and not by spark-submit, whose command line everybody on the machine may read.
        builder = builder.config(f"spark.executorEnv.{name}", value)
    for name, value in set_in(os.environ).items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    for name, value in door_settings(os.environ).items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
