"""The sink on Spark: the same files as without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError
from hipslake.spark.engine import SparkEngine
from pyspark.sql import SparkSession

from tests.tables.compaction import compacting
from tests.tables.compaction.compacting import compact
from tests.tables.puffin_reading import distinct, statistics_of
from tests.tables.sinking import Lake, utc
from tests.tables.test_sink import sample

MODES = {
    "no shuffle": {"partition": ["year(ts)"]},
    "by partition": {"partition": ["bucket[5](id)", "year(ts)"], "target_file_size": "4 KiB", "sort": ["ts"]},
    "upsert": {"partition": ["bucket[5](data)"], "mode": "upsert", "key": "id", "duplicates": "last by ts"},
    "interval": {
        "partition": ["year(ts)"],
        "mode": "overwrite-interval",
        "interval": "ts",
        "source": {"files": {"uri": "/x/{{ night }}/*.parquet", "format": "parquet"}},
    },
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
def test_spark_and_this_process_leave_the_same_table(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    lakes = [Lake(tmp_path / "plain"), Lake(tmp_path / "spark", SparkEngine(spark))]
    interval = (
        {"start": utc("1968-01-01T00:00:00"), "end": utc("1973-01-01T00:00:00")} if mode == "interval" else {}
    )
    contents, sketches = [], []
    for lake in lakes:
        spec = lake.spec(statistics={"ndv": ["id", "data"]}, **MODES[mode])
        for seed, first in ((0, 0), (1, 300)):
            rows = sample(400, seed=seed, first=first)
            if mode == "interval":
                rows = rows.filter(rows["ts"].is_valid())
            elif mode == "upsert":
                rows = pa.concat_tables([rows, rows.slice(0, 7)])
            done = lake.sink(spec, *[rows.slice(at, 90) for at in range(0, len(rows), 90)], **interval)
            assert done.files_added == done.expected_files
        assert not list(Path(lake.warehouse).rglob("*.blocks"))
        contents.append([pq.read_table(path).to_pylist() for path in lake.live(spec)])
        counted = statistics_of(lake.table(spec)) or {}
        sketches.append({name: blob.payload for name, blob in counted.items()})
        exact = distinct(lake.rows(spec), "id", "data")
        assert {name: blob.ndv for name, blob in counted.items()} == done.ndv == exact
    assert sorted(map(str, contents[0])) == sorted(map(str, contents[1]))
    assert sketches[0] == sketches[1]


def test_errors_of_tasks_keep_their_class(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path, SparkEngine(spark))
    with pytest.raises(InputError, match="have the key of another one, such as id = 3"):
        lake.sink(lake.spec(mode="upsert", key="id"), pa.table({"id": np.array([3, 3])}))


def test_rows_in_files_with_others_are_replaced_in_spark_as_without_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    lakes = [Lake(tmp_path / "plain"), Lake(tmp_path / "spark", SparkEngine(spark))]
    contents = []
    for lake in lakes:
        spec = lake.spec(partition=["year(ts)"])
        nights = {day: sample(300, seed=day, first=200 * day) for day in (1, 2)}
        intervals = {
            day: {"start": utc(f"2026-01-0{day}T00:00:00"), "end": utc(f"2026-01-0{day + 1}T00:00:00")}
            for day in nights
        }
        for day, rows in nights.items():
            lake.sink(spec, rows, **intervals[day])
        iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
        compact(compacting.request(lake.root, table="survey.sample", iceberg=iceberg, full=True))
        done = lake.sink(spec, nights[1].slice(0, 40), **intervals[1])
        assert (done.rows_updated, done.rows_rewritten) == (300, 300)
        found = lake.table(spec).scan().to_arrow()
        due = pa.concat_tables([nights[1].slice(0, 40), nights[2]])
        assert sorted(found["id"].to_pylist()) == sorted(due["id"].to_pylist())
        contents.append([pq.read_table(path).to_pylist() for path in lake.live(spec)])
    assert sorted(map(str, contents[0])) == sorted(map(str, contents[1]))
