"""An export by Spark's tasks is the export of one process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.spark.engine import SparkEngine
from hipslake.steps.export import run as in_spark
from hipslake.steps.export.request import ExportReport, ExportRequest
from hipslake.steps.report import perform
from hipslake.steps.run import run_uri

from tests.catalog.publishing import SHAPES, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tasks_read_and_one_process_writes(spark: SparkSession, tmp_path: Path) -> None:
    publish(tmp_path / "catalogs", **SHAPES["hipscat, two groups"])
    wanted = {"region": "cone 80 12 30deg", "columns": ("id", "note", "dec"), "filters": "mag > 14"}
    request = ExportRequest.model_validate(
        {
            "run_uri": run_uri(str(tmp_path), "catalog_export", "one"),
            "warehouse": str(tmp_path),
            "catalog": "stars",
            "output": "out.parquet",
            "task_bytes": 20_000,
            **wanted,
        }
    )
    engine = SparkEngine(spark)
    report = perform(lambda asked: in_spark.run(asked, engine), request, ExportReport)
    expected = Catalog.open(tmp_path / "catalogs" / "stars").read(
        ["id", "note", "dec"], "mag > 14", region="cone 80 12 30deg"
    )
    assert 0 < report.rows_out == expected.num_rows
    assert pq.read_table(tmp_path / "exports" / "out.parquet").equals(expected)
    assert not request.folder.storage.list(in_spark.PIECES)
