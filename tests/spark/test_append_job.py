"""Increments and compaction as Spark jobs: the same bytes as without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from hipslake.spark.catalog_frames import read_spark
from hipslake.spark.engine import SparkEngine
from hipslake.steps.append import run as append_run
from hipslake.steps.append.request import AppendRequest
from hipslake.steps.compact import run as compact_run
from hipslake.steps.compact.request import CompactRequest
from pyspark.sql import SparkSession

from tests.steps.nights import Survey, night_rows

NIGHTS = (0, 2, 1, 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("append", ["rewrite", "add_file"])
def test_spark_and_this_process_leave_the_same_catalog(
    spark: SparkSession, tmp_path: Path, append: str
) -> None:
    engine = SparkEngine(spark)
    plain, by_spark = (Survey(tmp_path / name, more=f"append: {append}") for name in ("plain", "spark"))
    for number, night in enumerate(NIGHTS):
        rows = night_rows(night, rows=300 - 50 * number, seed=number)
        plain.land(night, rows)
        plain.append(night)
        by_spark.land(night, rows)
        append_run.run(AppendRequest(run_uri=by_spark.start(night).uri, block_bytes=2000), engine)
    plain.compact()
    compact_run.run(CompactRequest(run_uri=by_spark.begin().uri), engine)
    by_spark.assert_holds_what_landed()
    assert by_spark.catalog.read().equals(plain.catalog.read())
    assert hashes(by_spark) == hashes(plain)


def hashes(survey: Survey) -> list[str]:
    """The checksums of all leaf files, along the curve."""
    table = survey.catalog.metadata.partitions(None, survey.catalog.storage)
    found: list[str] = table["sha256"].to_pylist()
    return found


def test_spark_reads_a_column_that_came_later(spark: SparkSession, tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    survey.night(0)
    later = night_rows(9)
    survey.land(9, later.append_column("colour", pc.add(later["mag"], 1.0)))
    survey.append(9)
    frame = read_spark(survey.catalog, spark, columns=["night", "colour"])
    assert frame.count() == 800
    assert {tuple(row) for row in frame.dropna().groupBy("night").count().collect()} == {(9, 400)}
