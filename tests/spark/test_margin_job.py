"""Margins made in Spark are, byte for byte, those made in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hipslake.engine.this_process import ThisProcess
from hipslake.spark.engine import SparkEngine
from hipslake.steps.ingest.draft import margin_files
from hipslake.steps.margin import run as margin_run
from hipslake.steps.margin.request import MARGIN_FILES, MarginRequest
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from pyspark.sql import SparkSession

from tests.steps import in_process
from tests.steps.join.living import LivingSide, joined, stars

pytestmark = pytest.mark.spark


def test_spark_makes_the_margins_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing")
    spec_file = in_process.write_spec(
        tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", more="margin: {arcsec: [7200, 600]}"
    )
    folder = in_process.start(tmp_path / "warehouse", spec_file)
    for step in (in_process.freeze, in_process.count, in_process.make_plan, in_process.write_leaves):
        step(folder)
    request = MarginRequest(run_uri=folder.uri, task_bytes=1 << 14, block_bytes=1 << 12)
    by_process = margin_run.run(request, ThisProcess())
    expected = margin_files(RunFolder(folder.uri))
    folder.storage.delete(MARGIN_FILES)
    in_spark = margin_run.run(request, SparkEngine(spark))
    found = read_table(folder.storage, MARGIN_FILES)
    keys = [("margin", "ascending"), ("path", "ascending")]
    assert found.sort_by(keys).equals(expected.sort_by(keys))
    assert in_spark.margin_rows == by_process.margin_rows
    assert in_process.check(folder).ok


def test_spark_goes_on_from_margins_as_one_process_does(spark: SparkSession, tmp_path: Path) -> None:
    a, b = (LivingSide(tmp_path, name) for name in "ab")
    for side in (a, b):
        side.night(0, stars(0, 300))
    spec = {
        "type": "crossmatch",
        "left": {"catalog": "a"},
        "right": {"catalog": "b"},
        "radius_arcsec": 40,
        "threshold": "40 rows",
        "margin": {"arcsec": [1200]},
    }
    joined(tmp_path, spec, "living")
    few = stars(0, 300).slice(250, 3)
    a.night(1, few)
    b.night(1, few)
    path = tmp_path / "living.yaml"
    path.write_text(yaml.safe_dump(spec | {"name": "living"}))
    folder = in_process.start_match(tmp_path, path)
    in_process.match(folder)
    request = MarginRequest(run_uri=folder.uri)
    found = []
    for engine in (ThisProcess(), SparkEngine(spark)):
        report = margin_run.run(request, engine)
        assert report.base_version == 1
        found.append((report.files_kept, read_table(folder.storage, MARGIN_FILES)))
    assert found[0][0] == found[1][0] < found[0][1].num_rows
    assert found[0][1].equals(found[1][1])
