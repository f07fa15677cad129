"""The compaction of a table, in Spark: the same files as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.spark.engine import SparkEngine
from pyspark.sql import SparkSession

from tests.compaction.compacting import compact, files_in, request, stars, write_folder


@pytest.mark.parametrize(
    "by", [{}, {"mode": "hilbert", "columns": ["ra", "dec"]}], ids=["binpack", "hilbert"]
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
