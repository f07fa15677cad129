"""How Spark is set up for the jobs. Imports nothing of Spark, so that operators can read it too.

`python -m benchmarks.ingest --step-cost --each` measures what each setting wins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hipslake.engine.own_process import KEPT_MILLISECONDS

# Taken up when the JVM starts: they must stand on the command line of spark-submit, not in the job.
LAUNCH: dict[str, str] = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the jobs say themselves how far they are
}

FIRST_COMPILER = "-XX:TieredStopAtLevel=1"  # the arithmetic is numpy's: C2 costs more than it wins
# Only where driver and tasks are one process: a JVM that is told of two collectors does not start, and what a
# cluster's administrator has told its executors is not known here.
LOCAL_JAVA_OPTIONS: tuple[str, ...] = (
    "-XX:+UseParallelGC",  # large byte arrays and few objects: throughput counts, pauses do not
    FIRST_COMPILER,
)
CLASS_ARCHIVE = (
    "HIPSLAKE_CLASS_ARCHIVE"  # names the file that `make setup` writes: Spark's classes, loaded and checked
)

SECRET = "HIPSLAKE_SPARK_SECRET"

# Can be set by the job itself.
SESSION: dict[str, str] = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Spark moves few rows here, each a block of many: compiling and tuning queries costs more than it wins.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # A block of the exchange is a row of up to 32 MB: batches between JVM and Python must hold few of
    # them, and many rows where rows are small.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": KEPT_MILLISECONDS,
    # Blocks are Arrow buffers of numbers: lz4 finds little in them and costs more than the local disk.
    "spark.shuffle.compress": "false",
    # The exchange routes by a computed target and its blocks are the same in every attempt, so the
    # safeguards against shuffles whose content depends on arrival order guard nothing here. They would take
    # references to blocks, which each attempt has of its own, for other content, and fail the job.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.shuffle.checksum.enabled": "false",
    # What was done long ago is kept for a UI that these jobs do not have, and by a session that goes on for
    # hundreds of steps (a notebook's) it is asked for even less.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "20",
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Extra options, which are an administrator's on a cluster, come behind default ones and win.
DRIVER_OPTIONS, EXECUTOR_OPTIONS = "spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"
DAEMON = "spark.python.daemon.module"
LIBRARY = "hipslake.zip"  # what the library is called where it travels with a job
DAEMON_ENTRY = "hipslake_daemon.py"  # and what executors start their Python daemon from, beside it

# How Python workers start where all run on one machine. On a cluster the library arrives with the job: see
# `executor_settings`.
WORKERS: dict[str, str] = {
    DAEMON: "hipslake.spark.daemon",  # forks them with all imports behind them
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
}


def launch_settings(master: str) -> dict[str, str]:
    """Return the options that spark-submit is given with `--conf`.

    Parameters
    ----------
    master : str
        What the job is submitted to. Options of the driver's JVM are set where it runs on this machine: on
        local and standalone masters.
    """
    settings = dict(LAUNCH)
    if master.startswith("local"):
        settings |= WORKERS | {JAVA_OPTIONS: " ".join(java_options())}
    elif master.startswith("spark://"):
        settings[DRIVER_OPTIONS] = " ".join(java_options((FIRST_COMPILER,)))
    return settings


def executor_settings(told: Mapping[str, str], *, library: bool) -> dict[str, str]:
    """Return how the executors of a cluster start, in the session's settings; nothing for a local master.

    Parameters
    ----------
    told : mapping of str to str
        The session's settings so far, with those of `spark-defaults.conf`. What an administrator has told
        executors comes after ours and wins: the last of two equal JVM options counts.
    library : bool
        Whether the library travels with the job as `LIBRARY`.
    """
    if told.get("spark.master", "local").startswith("local"):
        return {}
    options = [*java_options((FIRST_COMPILER,)), told.get(EXECUTOR_OPTIONS, "")]
    settings = {EXECUTOR_OPTIONS: " ".join(options).strip()}
    if library:
        settings[DAEMON] = told.get(DAEMON, Path(DAEMON_ENTRY).stem)
    return settings


def door_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options for authentication and encryption. They go to the session, not to a command line.

    Parameters
    ----------
    environment : mapping of str to str
        `HIPSLAKE_SPARK_SECRET`, the secret of the cluster; without it, Spark lets in whoever reaches it.
    """
    secret = environment.get(SECRET, "")
    if not secret:
        return {}
    return {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        "spark.network.crypto.enabled": "true",
    }


def java_options(options: tuple[str, ...] = LOCAL_JAVA_OPTIONS) -> tuple[str, ...]:
    """Return options of a JVM, by default a local driver's, and the class archive of the environment.

    Other machines may have the archive at the same place, as containers of one image do. A JVM passes over an
    archive that is missing or of another build; it need not say so in every log.
    """
    archive = os.environ.get(CLASS_ARCHIVE, "")
    if not archive or not Path(archive).is_file():
        return options
    return (*options, f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
