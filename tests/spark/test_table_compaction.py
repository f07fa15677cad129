"""The compaction of a table, in Spark: the same files as in one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hipslake.spark.engine import SparkEngine
from hipslake.tables.iceberg.data_files import live_files
from pyiceberg.transforms import TruncateTransform
from pyspark.sql import SparkSession

from tests.tables.compaction.compacting import compact, files_in, request, stars, write_folder
from tests.tables.sinking import Lake


@pytest.mark.parametrize(
    "by",
    [{}, {"mode": "hilbert", "columns": ["ra", "dec"]}, {"mode": "sort", "sort": ["name desc", "ra"]}],
    ids=["binpack", "hilbert", "sort"],
)
def test_spark_writes_the_same_bytes_as_this_process(spark: SparkSession, tmp_path: Path, by: dict) -> None:
    folder = write_folder(tmp_path / "stars", stars(6000), 15)
    asked = request(tmp_path, run="one", **by, folder={"uri": str(folder), "output": str(tmp_path / "out")})
    compact(asked)
    here = {path.name: path.read_bytes() for path in files_in(tmp_path / "out")}
    (tmp_path / "out").rename(tmp_path / "before")
    (Path(asked.run_uri) / "reports" / "compact_table.json").unlink()
    compact(asked, SparkEngine(spark))
    assert {path.name: path.read_bytes() for path in files_in(tmp_path / "out")} == here


def test_spark_compacts_an_iceberg_table_as_this_process_does(spark: SparkSession, tmp_path: Path) -> None:
    told, qualities = {}, {}
    for name, engine in (("here", None), ("there", SparkEngine(spark))):
        lake = Lake(tmp_path / name)
        spec = lake.spec(partition=["bucket[2](id)"])
        for night in range(4):
            lake.sink(spec, stars(800, seed=night))
        before = lake.rows(spec)
        by = {"mode": "hilbert", "columns": ["ra", "dec"], "target_file_size": "12 KiB"}
        iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
        report = compact(request(lake.root, table=spec.table, iceberg=iceberg, **by), engine)
        assert lake.rows(spec).equals(before)
        assert len(lake.live(spec)) == report.added.files > 2
        assert "A box query opened" in report.text
        assert Path(report.picture).read_bytes().startswith(b"<svg ")
        told[name] = (report.rows_out, report.checksum, report.removed.files, report.added.files, report.bins)
        qualities[name] = (report.before, report.after)
    assert told["here"] == told["there"]
    assert qualities["here"][1].files_touched == pytest.approx(qualities["there"][1].files_touched, rel=0.1)
    assert all(
        after.files_touched / after.files < before.files_touched / before.files
        for before, after in qualities.values()
    )


def test_spark_reads_the_compaction_of_its_own_folder(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "in")
    frame = spark.sql(
        "select id, timestamp'9999-12-31 23:59:59.999999' - make_dt_interval(cast(id * 40000 as int)) as t, "
        "cast(id as decimal(9,2)) as d, array(timestamp'0001-01-01 00:00:00') as a from range(100)"
    )
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    spark.conf.set("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED")
    frame.repartition(3).write.parquet(folder)
    frame = spark.read.parquet(folder)
    assert pq.read_metadata(files_in(Path(folder))[0]).schema.column(1).physical_type == "INT96"
    report = compact(request(tmp_path, folder={"uri": folder, "output": str(tmp_path / "out")}))
    assert report.rows_out == 100
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.schema == frame.schema
    assert found.exceptAll(frame).count() == frame.exceptAll(found).count() == 0


def test_spark_moves_rows_of_older_partitions(spark: SparkSession, tmp_path: Path) -> None:
    found = []
    for name, engine in (("here", None), ("there", SparkEngine(spark))):
        lake = Lake(tmp_path / name)
        for night in range(2):
            lake.sink(lake.spec(partition=["bucket[2](id)"]), stars(400, seed=night))
        with lake.table(lake.spec()).update_spec() as update:
            update.remove_field("id_bucket_2")
            update.add_field("name", TruncateTransform(6), "name_trunc_6")
        before = lake.rows(lake.spec())
        iceberg = {"uri": f"sqlite:///{lake.root}/state/iceberg.db"}
        report = compact(request(lake.root, table="survey.sample", iceberg=iceberg), engine)
        assert report.files_repartitioned == 4
        assert lake.rows(lake.spec()).equals(before)
        files = live_files(lake.table(lake.spec()))
        found.append(sorted((file.partition[0] or "", file.record_count) for file in files))
    assert found[0] == found[1]
    assert len(found[0]) == 10  # star 1 to star 9, and none
