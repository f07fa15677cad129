"""Catalogs of others as Spark DataFrames, and joined by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import SpecError

from tests.catalog.foreign_trees import variant
from tests.catalog.publishing import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["as it is", "mixed up and unplaced", "folders, mixed up"])
def test_spark_reads_what_is_read_without_it(spark: SparkSession, tmp_path: Path, form: str) -> None:
    catalog = Catalog.open(variant(publish(tmp_path, rows=1200), form, tmp_path / "tree"))
    for query in (
        {},
        {"region": "cone 80 12 30deg"},
        {"pixels": [(0, 4), (2, 90)], "columns": ["id", "note"]},
    ):
        frame = catalog.to_spark(spark, **query)
        wanted = catalog.read(**query)
        assert frame.columns == wanted.column_names
        rows = [row.asDict() for row in frame.orderBy("id").collect()]
        assert rows == wanted.sort_by("id").to_pylist()
    assert len(rows) > 50


def test_an_equijoin_by_shuffle_finds_all_rows_of_others(spark: SparkSession, tmp_path: Path) -> None:
    published = publish(tmp_path, rows=900)
    left = Catalog.open(variant(published, "unplaced", tmp_path / "left"))
    right = Catalog.open(variant(published, "folders", tmp_path / "right"))
    joined = left.join(
        right, on="id", shuffle=True, spark=spark, columns=["id"], other_columns=["note", "id"]
    )
    found = pa.Table.from_pylist([row.asDict() for row in joined.collect()])
    assert sorted(found["id"].to_pylist()) == sorted(published.source["id"].to_pylist())
    with pytest.raises(SpecError, match="give it a session"):
        left.join(right, on="id", shuffle=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["inner", "anti"])
def test_a_gathered_side_gives_what_a_shuffle_does(
    spark: SparkSession, tmp_path: Path, how: Literal["inner", "anti"]
) -> None:
    published = publish(tmp_path, rows=900, threshold="100 rows")
    left = Catalog.open(variant(published, "unplaced", tmp_path / "left"))
    right = Catalog.open(variant(published, "folders", tmp_path / "right"))
    asked: dict[str, Any] = {"columns": ["id", "mag"], "other_columns": ["note"], "other_filters": "mag < 16"}
    gathered = left.join(right, "id", how, gather=True, spark=spark, **asked)
    shuffled = left.join(right, "id", how, shuffle=True, spark=spark, **asked)
    rows = [sorted(str(row.asDict()) for row in frame.collect()) for frame in (gathered, shuffled)]
    assert rows[0] == rows[1]
    alone = left.join(right, "id", how, gather=True, **asked)
    assert sorted(str(row) for row in alone.to_pylist()) == rows[0]
    assert len(rows[0]) > 100
