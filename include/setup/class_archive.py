"""Write the class-data archive of Spark: `python include/setup/class_archive.py FILE`.

A Spark job spends most of its start on loading and checking classes, thousands of them, each time the
same. The JVM can keep them in a file. This runs a small exchange, which touches what the jobs touch, and
lets the JVM write the file at its end; jobs on a local master then start from it. It fits one Java and one
Spark build: others ignore it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hipslake.spark.settings import LAUNCH, LOCAL_JAVA_OPTIONS


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
    """Do what the jobs do, with next to no data."""
    import pyarrow as pa
    from hipslake.spark.engine import SparkEngine
    from hipslake.spark.session import open_session

    schema = pa.schema([("n", pa.int64())])

    def rows(number: int) -> list[pa.RecordBatch]:
        return [pa.record_batch([[number]], schema)]

    spark = open_session("class archive")
    engine = SparkEngine(spark)
    engine.run(rows, tasks=2, result=schema)
    engine.exchange(
        sources=2,
        mapper=lambda number: [(number, rows(number)[0])],
        targets=2,
        reducer=lambda target, blocks: [block.rows for block in blocks],
        result=schema,
    )
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_archive(Path(sys.argv[1]))
    else:
        touch_classes()
