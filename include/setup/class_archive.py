"""Write the class-data archive of Spark: `python include/setup/class_archive.py FILE`.

A Spark job spends most of its start on loading and checking classes, thousands of them, each time the
same. The JVM can keep them in a file. This runs a small exchange, which touches what the jobs touch, and
lets the JVM write the file at its end; jobs on a local master then start from it. Then it runs the exchange
again on a little cluster of its own, and has the JVM load what the executor there has loaded: so drivers and
executors of a cluster start from the same file, where they find it. It fits one Java and one Spark build:
others ignore it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hipslake.spark.settings import LAUNCH, LOCAL_JAVA_OPTIONS, SESSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A line of the JVM's log of classes, of one that stands in a file under its own name.
_LOADED = re.compile(r"^([\w.$]+) source: (?:file|jrt|shared objects file)", re.MULTILINE)
_CLUSTER = "local-cluster[1,1,1024]"  # a worker with a core and 1 GiB, of which executors are processes


def write_archive(target: Path) -> None:
    """Run this file as a Spark job whose JVM archives its classes at exit."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    options = " ".join([*LOCAL_JAVA_OPTIONS, f"-XX:ArchiveClassesAtExit={unfinished}"])
    settings = LAUNCH | {"spark.driver.extraJavaOptions": options}
    command = ["spark-submit", "--master", "local[1]"]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    job = subprocess.run([*command, __file__], capture_output=True, text=True, check=False)
    if job.returncode or not unfinished.is_file():
        unfinished.unlink(missing_ok=True)
        raise SystemExit(f"hipslake: Spark does not start:\n{(job.stdout + job.stderr)[-3000:]}")
    unfinished.replace(target)


def touch_classes() -> None:
    """Do what the jobs do, with next to no data: in this JVM, and on a cluster of one executor."""
    from hipslake.spark.session import open_session
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    spark = open_session("class archive")
    exchange_little(spark)
    spark.stop()
    try:
        touch_executor_classes()
    except (PySparkException, Py4JError, OSError) as error:  # the archive is whole without them
        print(f"hipslake: the archive has no classes of executors: {error}", file=sys.stderr)


def touch_executor_classes() -> None:
    """Do the same on a cluster of one executor, and load in this JVM what that has loaded."""
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "classes")
        settings = SESSION | {"spark.executor.extraJavaOptions": f"-Xlog:class+load:file={log}:none"}
        spark = SparkSession.builder.master(_CLUSTER).config(map=settings).getOrCreate()
        exchange_little(spark)
        load_classes(spark, _LOADED.findall(log.read_text()))
        spark.stop()


def exchange_little(spark: SparkSession) -> None:
    """Run two tasks, and a small exchange."""
    import pyarrow as pa
    from hipslake.spark.engine import SparkEngine

    schema = pa.schema([("n", pa.int64())])

    def rows(number: int) -> list[pa.RecordBatch]:
        return [pa.record_batch([[number]], schema)]

    engine = SparkEngine(spark)
    engine.run(rows, tasks=2, result=schema)
    engine.exchange(
        sources=2,
        mapper=lambda number: [(number, rows(number)[0])],
        targets=2,
        reducer=lambda target, blocks: [block.rows for block in blocks],
        result=schema,
    )


def load_classes(spark: SparkSession, names: list[str]) -> None:
    """Let the driver's JVM load classes, without running anything of them."""
    from py4j.protocol import Py4JJavaError

    java = spark._jvm.java.lang
    loader = java.Thread.currentThread().getContextClassLoader()
    for name in names:
        try:
            java.Class.forName(name, False, loader)
        except Py4JJavaError:  # of a loader of its own
            continue


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_archive(Path(sys.argv[1]))
    else:
        touch_classes()
