"""The Spark session of a job."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hipslake.errors import StepError
from hipslake.spark.settings import (
    DAEMON,
    DAEMON_ENTRY,
    LIBRARY,
    SESSION,
    door_settings,
    executor_settings,
    launch_settings,
)
from hipslake.spark.worker_environment import handed_on

_ENTRY = "hipslake/spark/executor_daemon.py"


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
    launch = {}
    if "SPARK_ENV_LOADED" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = os.environ.get("HIPSLAKE_SPARK_MASTER", "local[*,4]")
        launch = {"spark.master": master, **launch_settings(master)}
    # Executors are told how to start with what the administrator has told them, which the JVM knows.
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(launch.items())))
    library = _travelling_library()
    executors = executor_settings(dict(SparkConf().getAll()) | launch, library=library is not None)
    builder = SparkSession.builder.appName(name).config(map={**launch, **executors})
    # Set here and not by spark-submit, whose command line everybody on the machine may read.
    of_workers = {f"spark.executorEnv.{key}": value for key, value in handed_on(os.environ).items()}
    builder = builder.config(map={**SESSION, **of_workers, **door_settings(os.environ)})
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if library is not None and DAEMON in executors:
        _send_daemon(session, library)
    return session


def _send_daemon(session: SparkSession, library: Path) -> None:
    """Give executors what they start their Python daemon from."""
    entry = Path(SparkFiles.getRootDirectory(), "sent", DAEMON_ENTRY)  # goes with the session
    entry.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(library) as archive:
        entry.write_bytes(archive.read(_ENTRY))
    session.sparkContext.addFile(str(entry))


def _travelling_library() -> Path | None:
    """The archive that this module was imported from, if it is the one that travels with a job."""
    archive = Path(__file__).parents[2]
    return archive if archive.name == LIBRARY and archive.is_file() else None


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
