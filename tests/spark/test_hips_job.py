"""A HiPS by Spark's tasks is the HiPS of one process."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hipslake.spark.engine import SparkEngine
from hipslake.steps.hips import run as hips_run
from hipslake.steps.hips.request import HipsReport
from hipslake.steps.report import perform

from tests.catalog.publishing import SHAPES, publish
from tests.steps.hips.hips_reader import check_progress, read_hips
from tests.steps.hips.making_hips import asked, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tasks_of_spark_write_the_same_tiles(spark: SparkSession, tmp_path: Path) -> None:
    publish(tmp_path / "catalogs", **SHAPES["hipscat, two groups"])
    options = {
        "order_by": "mag",
        "tile_rows": 30,
        "allsky_rows": 4,
        "filters": "id > 10",
        "created": datetime(2026, 1, 1, tzinfo=UTC),
    }
    request = asked(tmp_path, "spark", output="spark", task_bytes=20_000, **options)
    engine = SparkEngine(spark)
    report = perform(lambda given: hips_run.run(given, engine), request, HipsReport)
    here = run(asked(tmp_path, "here", output="here", **options))
    files = [
        {
            str(path.relative_to(root)): path.read_bytes()
            for path in Path(root).rglob("*")
            if path.is_file() and path.name not in ("hips.json", "Moc.fits")
        }
        for root in (report.output, here.output)
    ]
    assert files[0] == files[1]
    check_progress(read_hips(Path(report.output)), "mag")
    assert not request.folder.storage.list("hips")
