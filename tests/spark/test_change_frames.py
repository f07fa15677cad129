"""Changes in Spark: the rows that Arrow gives, from tasks over stretches of the curve."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.catalog.changes import change_feed
from hipslake.spark.engine import SparkEngine
from hipslake.steps.sink import run as sink_run
from hipslake.steps.sink.request import SinkRequest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.steps.nights import Survey
from tests.steps.sinks import COLUMNS, Lake


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Three versions: the second has another night, the third the first night with changes."""
    groups = "column_groups: [{name: main}, {name: seen, columns: [mag, night], threshold: 90 rows}]\n"
    survey = Survey(tmp_path_factory.mktemp("survey"), threshold="120 rows", more=groups)
    for number in (0, 1):
        survey.night(number, rows=200)
    rows = survey.landed[0]
    dec = pc.if_else(pc.less(rows["id"], 30), pc.negate(rows["dec"]), rows["dec"])
    mag = pc.if_else(pc.equal(rows["id"], 50), float("nan"), rows["mag"])
    survey.land(0, rows.set_column(2, "dec", dec).set_column(3, "mag", mag).slice(5))
    survey.append(0)
    return survey


def counted(frame: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in frame.collect())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pair", [(1, 2), (2, 3), (3, 1)])
@pytest.mark.parametrize(
    "asked",
    [{}, {"key": ["id"]}, {"columns": ["id", "mag"], "filters": "mag < 19", "region": "cone 80 20 40deg"}],
)
def test_the_rows_are_those_of_arrow(
    spark: SparkSession,
    survey: Survey,
    pair: tuple[int, int],
    asked: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(change_feed.ChangeFeed.of.__func__.__kwdefaults__, "piece_rows", 100)
    changes = survey.catalog.changes(*pair, **asked)
    assert len(changes.feed.stretches) > 2
    here = Counter(repr(tuple(row.values())) for row in changes.to_arrow().to_pylist())
    frame = changes.to_spark(spark)
    assert frame.columns == changes.schema.names
    assert counted(frame) == here
    assert sum(here.values()) > 0
    exchanges = str(frame._jdf.queryExecution().executedPlan().toString()).count("Exchange hashpartitioning")
    assert exchanges == (1 if "key" in asked else 0)


def test_nothing_changed(spark: SparkSession, survey: Survey) -> None:
    frame = survey.catalog.changes(3, 3, key=["id"]).to_spark(spark)
    assert frame.count() == 0
    assert frame.columns == survey.catalog.changes(3, 3).schema.names


def test_a_key_that_several_rows_have_is_told(spark: SparkSession, survey: Survey) -> None:
    with pytest.raises(PySparkException, match="have the night of another one in version"):
        survey.catalog.changes(2, 3, key=["night"]).to_spark(spark).collect()


def test_unsigned_numbers_are_as_spark_has_them(spark: SparkSession, tmp_path: Path) -> None:
    import hipslake

    spec = {"name": "stars", "position": {"ra": "ra", "dec": "dec"}}
    rows = pa.table({"ra": [1.0, 2.0], "dec": [1.0, 2.0], "n": pa.array([1, 2**64 - 1], pa.uint64())})
    hipslake.ingest(rows, spec=spec, warehouse=tmp_path, spark=False)
    catalog = hipslake.ingest(rows.slice(0, 1), spec=spec, warehouse=tmp_path, spark=False)
    row = catalog.changes(1).to_spark(spark).collect()[0]
    assert (row["_change"], int(row["n"])) == ("delete", 2**64 - 1)


def test_a_table_follows_a_catalog_by_tasks_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake, survey = Lake(tmp_path), Survey(tmp_path, threshold="120 rows")
    lake.write_spec("source: {catalog: stars, changes: true}\npartition: [night]\nmode: upsert\nkey: id\n")
    for number, rows in ((0, 200), (1, 100), (0, 150)):
        survey.night(number, rows=rows)
        report = sink_run.run(SinkRequest(run_uri=lake.resolve().uri), SparkEngine(spark))
        assert report.commits == 1
        expected = survey.catalog.read(COLUMNS).sort_by("id").combine_chunks()
        assert lake.rows(*COLUMNS).combine_chunks().equals(expected)
    assert (report.rows_out, report.rows_updated) == (150, 200)
