"""Progress of work in Spark: the driver says how many tasks are done, while others still run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyarrow as pa
from hipslake.engine.model import Stage
from hipslake.spark.engine import SparkEngine
from pyspark.sql import SparkSession

RESULT = pa.schema([("number", pa.int64())])


def reading(folder: str, number: int) -> Iterator[pa.RecordBatch]:
    """A task that reads a file; of a pipe, it waits for whoever may write into it."""
    Path(folder, str(number)).read_bytes()
    yield pa.record_batch([[number]], schema=RESULT)


def test_the_driver_knows_how_many_tasks_are_done(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "0").touch()
    (tmp_path / "2").touch()
    os.mkfifo(tmp_path / "1")
    engine = SparkEngine(spark)
    assert engine._stages() == []
    with ThreadPoolExecutor(1) as pool, ExitStack() as held:
        held.callback(os.close, os.open(tmp_path / "1", os.O_RDWR))
        work = pool.submit(engine.run, partial(reading, str(tmp_path)), tasks=3, result=RESULT)
        found: list[Stage] = []
        while not work.done() and [stage.done for stage in found] != [2]:  # Spark tells it a moment later
            found = engine._stages()
        assert found == [Stage(found[0].name, 2, 3)]
        assert found[0].name.startswith("stage ")
        held.close()
        assert sorted(work.result()["number"].to_pylist()) == [0, 1, 2]
