"""A Spark job with one Python task that does nothing; it leaves the seconds of its phases to `step_cost`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

marks = [time.time() - float(os.environ["HIPSLAKE_BENCH_BEGAN"])]
mark = time.perf_counter()
without = os.environ["HIPSLAKE_BENCH_WITHOUT"].split()

from hipslake.spark.installed import prefer_installed_pyspark  # noqa: E402

if "installed" not in without:
    prefer_installed_pyspark()

import pyarrow as pa  # noqa: E402
from hipslake.spark.session import open_session  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

if TYPE_CHECKING:
    Batches = Iterator[pa.RecordBatch]


def same(batches: Batches) -> Batches:
    yield from batches


def took() -> None:
    """Note the seconds since the last mark."""
    global mark
    now = time.perf_counter()
    marks.append(now - mark)
    mark = now


took()
session = SparkSession.builder.getOrCreate() if "session" in without else open_session("step cost")
took()
assert session.range(0, 1, 1, 1).mapInArrow(same, "id bigint").count() == 1
took()
if "exit" in without:
    session.stop()
Path(os.environ["HIPSLAKE_BENCH_MARKS"]).write_text(json.dumps(marks))
