"""Sinks into Delta tables and compactions, in Spark: the same rows in the same files as in one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.engine.this_process import ThisProcess
from hipslake.spark.engine import SparkEngine
from hipslake.steps.compact_table import run as compaction
from hipslake.steps.compact_table.request import CompactTableRequest, FrozenCompaction
from hipslake.steps.run import RunFolder
from hipslake.steps.stream import run as draining
from pyspark.sql import SparkSession

from tests.tables.compaction.compacting import compact, request, stars
from tests.tables.delta.delta_lake import DeltaLake, plain_delta_rows, plain_log
from tests.tables.landing import Landing
from tests.tables.plain_reader import counted
from tests.tables.sinking import utc


def files(lake: DeltaLake) -> list[str]:
    """The rows of each live file, with what the log says of it."""
    location = lake.location(lake.spec())
    return sorted(
        f"{told['partitionValues']} {told['stats']} {pq.ParquetFile(location / path).read().to_pylist()}"
        for path, told in plain_log(location).items()
    )


def records(rows: pa.Table, number: int, deleted: int) -> pa.Table:
    """Records of rows, of which the first ones are deletes."""
    kinds = ["D" if at < deleted else "U" for at in range(rows.num_rows)]
    return rows.append_column("op", [kinds]).append_column("v", pa.array([number] * rows.num_rows))


def test_spark_and_this_process_leave_the_same_table(spark: SparkSession, tmp_path: Path) -> None:
    lakes = [DeltaLake(tmp_path / "plain"), DeltaLake(tmp_path / "spark", SparkEngine(spark))]
    contents, clustered = [], []
    for lake in lakes:
        given = {"mode": "upsert", "key": "id", "operation": {"column": "op"}, "order_by": "v"}
        spec = lake.spec(partition=["band"], target_file_size="8 KiB", sort=["ra"], **given)
        rows = stars(800).append_column("band", [["gr"[number % 2] for number in range(800)]])
        lake.sink(spec, *(records(rows, 1, 0).slice(at, 100) for at in range(0, 800, 100)))
        done = lake.sink(spec, records(rows.slice(100, 300), 2, 120), start=utc("2026-01-02T00:00:00"))
        assert (done.rows_deleted, done.rows_updated) == (120, 180)
        contents.append(files(lake))
        before = counted(plain_delta_rows(lake.location(spec)))
        by = {"mode": "hilbert", "columns": ["ra", "dec"], "target_file_size": "8 KiB"}
        asked = request(lake.root, run="one", table=spec.table, format="delta", max_commits=2, **by)
        report = compact(asked, lake.engine)
        assert (report.rows_out, report.commits) == (680, 2)
        assert counted(plain_delta_rows(lake.location(spec))) == before
        clustered.append(report.checksum)
    assert contents[0] == contents[1]
    assert clustered[0] == clustered[1]


def test_a_stream_is_drained_into_a_delta_table_and_packed(spark: SparkSession, tmp_path: Path) -> None:
    lands = Landing(
        tmp_path,
        SparkEngine(spark),
        stream={"max_files": 1, "compact": True},
        format="delta",
        iceberg={},
        partition=["night"],
    )
    location = tmp_path / "warehouse" / "delta" / "survey" / "alerts"

    def ids() -> list[int]:
        return sorted(row["id"] for row in plain_delta_rows(location))

    for number in range(4):
        lands.land(f"{number}.parquet", 3 * number, age=10 - number)
    asked = lands.request()
    report = draining.run(asked, lands.engine)
    assert (report.batches, report.rows_out) == (4, 12)
    told = report.committed(asked.run_uri)
    assert told is not None
    assert (told.version, told.rows) == (str(report.snapshot_id), 12)
    assert len(plain_log(location)) == 4
    folder = RunFolder(f"{asked.run_uri}/compact")
    spec = folder.read(RunFolder.RUN, FrozenCompaction).spec
    packed = CompactTableRequest(run_uri=folder.uri, warehouse=lands.warehouse, spec=spec)
    assert compaction.run(packed, ThisProcess()).rows_out == 12
    assert len(plain_log(location)) == 1
    lands.forget(3)
    assert lands.drain().found == 1  # the batch comes again, and is there
    lands.land("4.parquet", 12)
    assert lands.drain().batches == 1
    assert ids() == list(range(15))
