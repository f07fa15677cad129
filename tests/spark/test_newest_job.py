"""The newest row of each key by Spark: the same bytes as without it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hipslake.spark.engine import SparkEngine
from hipslake.steps.append import run as append_run
from hipslake.steps.append.request import AppendRequest
from hipslake.steps.ingest import histogram
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
from hipslake.steps.report import perform
from pyspark.sql import SparkSession

from tests.steps import in_process
from tests.steps.append.test_newest_of_nights import NEWEST, check, seen_again
from tests.steps.nights import Survey


def test_spark_and_this_process_keep_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    engine = SparkEngine(spark)
    plain, by_spark = (Survey(tmp_path / name, more=NEWEST) for name in ("plain", "spark"))
    rows = seen_again(0)
    rows = pa.concat_tables([rows, rows.slice(0, 90)])  # some are there twice
    plain.land(0, rows, files=4)
    expected = plain.append(0)
    by_spark.land(0, rows, files=4)
    folder = by_spark.resolve(0)
    in_process.freeze(folder)
    request = HistogramRequest(run_uri=folder.uri, split_target_bytes=2000)
    counted = perform(lambda asked: histogram.run(asked, engine), request, HistogramReport)
    assert counted.rows_superseded == expected.rows_superseded > 90
    append_run.run(AppendRequest(run_uri=folder.uri, block_bytes=2000), engine)
    check(by_spark)
    sums = [
        each.catalog.metadata.partitions(None, each.catalog.storage)["sha256"].to_pylist()
        for each in (plain, by_spark)
    ]
    assert sums[0] == sums[1]
