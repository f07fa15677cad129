"""Moments in columns of frames: with and without a time zone, into files and out of catalogs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from hipslake.catalog.joining.stretches import StretchPlan
from hipslake.spark.frame_rows import frame_rows
from hipslake.spark.joined_frames import by_stretches
from hipslake.storage.folder import Storage
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

AWARE = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
ROWS = pa.table(
    {
        "aware": pa.array([AWARE, None], pa.timestamp("us", "UTC")),
        "naive": pa.array([AWARE.replace(tzinfo=None), None], pa.timestamp("us")),
    }
)


def test_moments_of_a_frame_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS.to_pylist(), from_arrow_schema(ROWS.schema))
    with frame_rows(frame.coalesce(1), Storage.at(tmp_path)) as rows:
        assert rows.schema.equals(ROWS.schema)
        found = pa.concat_tables(rows.read(0, rows.schema.names))
        assert found.to_pylist() == ROWS.to_pylist()


def test_moments_of_joined_rows_come_out(spark: SparkSession) -> None:
    pieces = StretchPlan(*(np.array([number], np.int64) for number in (0, 9, 2)))
    frame = by_stretches(spark, lambda start, stop: ROWS, pieces, from_arrow_schema(ROWS.schema))
    assert frame.toArrow().to_pylist() == ROWS.to_pylist()
