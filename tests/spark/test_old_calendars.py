"""Files that Spark writes in its mode LEGACY: read as Spark reads them, or refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.errors import InputError
from hipslake.sources import open_source
from hipslake.specs.source_spec import SourceSpec
from pyspark.sql import SparkSession

VALUES = {
    "DATE": ("unix_date(v)", ["0001-01-01", "1582-10-04"], ["1582-10-15", "2020-02-29"]),
    "TIMESTAMP": ("unix_micros(v)", ["1582-10-04 12:00:00", "1883-11-18 12:05:00"], ["1900-01-02 00:00:00"]),
    "TIMESTAMP_NTZ": (
        "timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01', v)",
        [],
        ["1582-10-04 00:00:00"],
    ),
}
"""By type: its number since 1970, early values, and late ones; of times without a zone, all are."""


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, whose settings end with the test."""
    return spark.newSession()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("output", ["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
@pytest.mark.parametrize("kind", sorted(VALUES))
def test_days_are_those_that_spark_reads_or_refused(
    session: SparkSession, tmp_path: Path, mode: str, output: str, kind: str
) -> None:
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", mode)
    session.conf.set("spark.sql.parquet.int96RebaseModeInWrite", mode)
    session.conf.set("spark.sql.parquet.outputTimestampType", output)
    number, early, late = VALUES[kind]
    for name, values in (("early", early), ("late", late), ("both", early + late)):
        if not values:
            continue
        folder = tmp_path / name
        session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
        rows = ", ".join(f"({kind} '{value}')" for value in values)
        made = session.sql(f"SELECT v FROM VALUES {rows}, (NULL) AS made(v)").coalesce(1)
        made.write.parquet(str(folder))
        session.conf.set("spark.sql.session.timeZone", "UTC")
        read = session.read.parquet(str(folder)).selectExpr(number).collect()
        if mode == "LEGACY" and early and values is not late:
            with pytest.raises(
                InputError, match=r"column 'v' has values before 1\d{3}-\d\d-\d\d, counted by the J"
            ):
                numbers(folder)
        else:
            assert numbers(folder) == [row[0] for row in read]


def numbers(folder: Path) -> list[int | None]:
    """Days or microseconds since 1970, as a source is read."""
    source = open_source(SourceSpec(uri=f"{folder}/*.parquet", format="parquet"))
    files = source.list_files()
    schema = source.schema(files)
    found: list[int | None] = []
    for split in source.splits(files):
        for batch in source.read(split, schema):
            kind = batch.schema.types[0]
            if pa.types.is_timestamp(kind):
                column = batch.column(0).cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
            else:
                column = batch.column(0).cast(pa.int32())
            found += column.to_pylist()
    return found
