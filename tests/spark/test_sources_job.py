"""Sources placed by their objects, and indices, by tasks in Spark: the bytes are those made without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import VerificationError
from hipslake.spark.engine import SparkEngine
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.index import run as index_run
from hipslake.steps.index.index_files import IndexOrder
from hipslake.steps.index.request import BuildIndexReport, BuildIndexRequest
from hipslake.steps.ingest import gather_objects as gathering
from hipslake.steps.ingest import histogram, write
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest, WriteReport, WriteRequest
from hipslake.steps.report import perform
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep import verify
from hipslake.steps.upkeep.request import VerifyReport, VerifyRequest
from pyspark.sql import SparkSession

from tests.steps import in_process
from tests.steps.index.following import FILE_ROWS, INDEXED, index, rows_of_night, told
from tests.steps.nights import Survey
from tests.steps.sources_of_objects import Lake, by_objects, objects_table, sources_table


def run_steps(lake: Lake, engine: Engine, **spec: object) -> RunFolder:
    """Everything up to verify."""
    folder = lake.start("sources", index=["object_id", "source_id"], **spec)
    in_process.freeze(folder)
    perform(lambda asked: histogram.run(asked, engine), HistogramRequest(run_uri=folder.uri), HistogramReport)
    in_process.make_plan(folder)
    perform(lambda asked: write.run(asked, engine), WriteRequest(run_uri=folder.uri), WriteReport)
    request = BuildIndexRequest(run_uri=folder.uri, file_rows=3000)
    perform(lambda asked: index_run.run(asked, engine), request, BuildIndexReport)
    perform(lambda asked: verify.run(asked, engine), VerifyRequest(run_uri=folder.uri), VerifyReport)
    return folder


def contents(folder: RunFolder) -> dict[str, bytes]:
    """What the write left, but for what says when, and for lists of its files by their paths."""
    root = Path(FrozenRun.of(folder).catalog_uri, FrozenRun.of(folder).write_id)
    files = [path for path in root.rglob("*.parquet") if not path.name.startswith(("_metadata", "indexed_"))]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("small", [True, False])
def test_spark_leaves_what_one_process_leaves(
    spark: SparkSession, tmp_path: Path, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "SMALL_SOURCE_BYTES", 1 << 30 if small else 0)
    lake = Lake(tmp_path)
    objects = objects_table(kind="texts")
    lake.ingest_objects(objects)
    lake.land("sources", sources_table(objects))
    here = run_steps(lake, ThisProcess(), position_from=by_objects())
    there = run_steps(lake, SparkEngine(spark), position_from=by_objects())
    assert contents(here) == contents(there)
    assert len(contents(here)) > 50
    lake.finish(there)
    assert lake.open("sources").find("source_id", 77).num_rows == 1


def test_an_index_goes_on_in_spark_as_it_does_here(spark: SparkSession, tmp_path: Path) -> None:
    survey = Survey(tmp_path, threshold="900 rows", more=f"index: [{', '.join(INDEXED)}]")
    survey.land(0, rows_of_night(0, 2500))
    survey.append(0)
    index(survey)
    survey.land(1, rows_of_night(1, 60))
    survey.append(1)
    metadata = survey.catalog.metadata
    for column in INDEXED:
        base = metadata.index_of(column)
        made = []
        for engine, name in ((ThisProcess(), "a"), (SparkEngine(spark), "b"), (SparkEngine(spark), "c")):
            order = IndexOrder(survey.catalog.storage, metadata, column, name, FILE_ROWS, 3 * FILE_ROWS)
            why = "for the test" if name == "c" else None
            built = index_run.build_index(order, engine, base=base, full_because=why)
            assert built.full_because == why
            assert name == "c" or built.kept
            made.append(told(built.described))
        assert made[0] == made[1] == made[2]


def test_a_false_mark_fails_verification_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    objects = objects_table()
    lake.land("sources", sources_table(objects))
    with pytest.raises(VerificationError, match="column 'object_id' is marked as co-partitioned"):
        run_steps(lake, SparkEngine(spark), co_partitioned=["object_id"])
