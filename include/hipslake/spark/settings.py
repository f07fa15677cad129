"""How Spark is set up for the jobs. Imports nothing of Spark, so that operators can read it too.

`python -m benchmarks.ingest --step-cost --each` measures what each setting wins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Taken up when the JVM starts: they must stand on the command line of spark-submit, not in the job.
LAUNCH: dict[str, str] = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the jobs say themselves how far they are
}

# Only where driver and tasks are one process; a cluster's administrator decides about its executors.
LOCAL_JAVA_OPTIONS: tuple[str, ...] = (
    "-XX:+UseParallelGC",  # large byte arrays and few objects: throughput counts, pauses do not
    "-XX:TieredStopAtLevel=1",  # the arithmetic is numpy's: C2 costs more than it wins
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
    # Arrow's allocator gives memory back after 10 ms; the next batch would have to fetch it, zeroed, anew.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "20000",
    # Blocks are Arrow buffers of numbers: lz4 finds little in them and costs more than the local disk.
    "spark.shuffle.compress": "false",
    # The exchange routes by a computed target and its blocks are the same in every attempt, so the
    # safeguards against shuffles whose content depends on arrival order guard nothing here.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.shuffle.checksum.enabled": "false",
    # What was done long ago is kept for a UI that these jobs do not have, and by a session that goes on for
    # hundreds of steps (a notebook's) it is asked for even less.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "20",
}

# How Python workers start where all run on one machine; a cluster has the library only once a job runs.
WORKERS: dict[str, str] = {
    "spark.python.daemon.module": "hipslake.spark.daemon",  # forks them with all imports behind them
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def launch_settings(master: str) -> dict[str, str]:
    """Return the options that spark-submit is given with `--conf`.

    Parameters
    ----------
    master : str
        What the job is submitted to. JVM options and the start of workers are set for local masters.
    """
    settings = dict(LAUNCH)
    if master.startswith("local"):
        settings |= WORKERS | {JAVA_OPTIONS: " ".join(java_options())}
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


def java_options() -> tuple[str, ...]:
    """Return the options of a local driver's JVM, with the class archive that the environment names."""
    archive = os.environ.get(CLASS_ARCHIVE, "")
    if not archive or not Path(archive).is_file():
        return LOCAL_JAVA_OPTIONS
    # A JVM of another build ignores the archive; it need not say so in every log.
    return (*LOCAL_JAVA_OPTIONS, f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
