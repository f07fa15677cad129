"""Nights in mode upsert as Spark jobs: the same bytes as without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.spark.engine import SparkEngine
from hipslake.steps.append import run as append_run
from hipslake.steps.append.request import AppendRequest
from hipslake.steps.ingest import histogram
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
from hipslake.steps.report import perform
from pyspark.sql import SparkSession

from tests.steps import in_process
from tests.steps.append.test_upsert_followers import night
from tests.steps.upserts import TWO_GROUPS, UpsertHistory, UpsertSurvey, table_of

pytestmark = pytest.mark.sampled(2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("append", "kind"), [("rewrite", UpsertSurvey), ("add_file", UpsertSurvey), ("add_file", UpsertHistory)]
)
def test_spark_and_this_process_leave_the_same_catalog(
    spark: SparkSession, tmp_path: Path, append: str, kind: type[UpsertSurvey]
) -> None:
    engine = SparkEngine(spark)
    more = f"append: {append}\nmargin: {{arcsec: 3600}}{TWO_GROUPS}"
    plain, by_spark = (kind(tmp_path / name, threshold="30 rows", more=more) for name in ("plain", "spark"))
    nights = {0: night(0, range(90)), 2: night(2, range(40, 120)), 1: night(1, range(20, 60))}
    for number, records in [*nights.items(), (2, night(2, range(100, 105)))]:
        plain.upsert(number, records)
        by_spark.land(number, table_of(records))
        folder = by_spark.resolve(number)
        in_process.freeze(folder)
        counting = HistogramRequest(run_uri=folder.uri)
        perform(lambda asked: histogram.run(asked, engine), counting, HistogramReport)
        append_run.run(AppendRequest(run_uri=folder.uri, block_bytes=2000), engine)
        by_spark.nights[number] = records
    by_spark.assert_holds_the_state()
    assert hashes(by_spark) == hashes(plain)


def hashes(survey: UpsertSurvey) -> list[str]:
    """The checksums of all files that the newest version names."""
    metadata, storage = survey.catalog.metadata, survey.catalog.storage
    found = [sha for each in metadata.with_files for sha in each.table(storage)["sha256"].to_pylist()]
    assert metadata.key_records is not None
    return found + [file.sha256 for run in metadata.key_records.all_runs for file in run.listed(storage)]
