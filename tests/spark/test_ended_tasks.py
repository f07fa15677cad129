"""A session tells which of its tasks have succeeded, and of none that has to run again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from hipslake.spark.engine import SparkEngine
from pyspark.sql import SparkSession

NUMBERS = pa.schema([("n", pa.int64())])


def test_tasks_are_told_of_once_they_have_succeeded(spark: SparkSession, tmp_path: Path) -> None:
    told: list[int] = []
    done = str(tmp_path)

    def task(number: int) -> Iterator[pa.RecordBatch]:
        time.sleep(0.15)
        Path(done, str(number)).touch()
        yield pa.record_batch([[number]], NUMBERS)

    def ended(number: int) -> None:
        assert Path(done, str(number)).exists()
        told.append(number)

    found = SparkEngine(spark).run(task, tasks=12, result=NUMBERS, ended=ended)
    assert sorted(found["n"].to_pylist()) == list(range(12))
    assert len(told) == len(set(told))
    assert len(told) >= 8  # the last ones may be left out
