"""How Spark is set up for the jobs. Imports nothing of Spark, so that operators can read it too.

What each setting won is measured in docs/benchmarks.
"""

from __future__ import annotations

# Taken up when the JVM starts: they must stand on the command line of spark-submit, not in the job.
LAUNCH: dict[str, str] = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the jobs say themselves how far they are
}

# Only where driver and tasks are one process; a cluster's administrator decides about its executors.
LOCAL_JAVA_OPTIONS: tuple[str, ...] = (
    "-XX:+UseParallelGC",  # a job moves large byte arrays and holds few objects: throughput counts, pauses do not
    "-XX:TieredStopAtLevel=1",  # the JVM copies blocks; the arithmetic is numpy's, so C2 costs more than it wins
    "-XX:+UseTransparentHugePages",
    "-Xshare:auto",
)

# Can be set by the job itself.
SESSION: dict[str, str] = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # A block of the exchange is a row of up to 32 MB: batches between JVM and Python must hold few of them.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
    "spark.python.unix.domain.socket.enabled": "true",
    # Blocks are Arrow buffers of numbers: lz4 finds little in them and costs more than the local disk.
    "spark.shuffle.compress": "false",
    # The exchange routes by a computed target and its blocks are the same in every attempt, so the
    # safeguards against shuffles whose content depends on arrival order guard nothing here.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.shuffle.checksum.enabled": "false",
}
