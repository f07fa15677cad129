"""The equi-join in Spark: no exchange leaf by leaf, every pair by a shuffle."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.steps.sources_of_objects import Lake, objects_table, sources_table

ON = ("id", "object_id")


OBJECT_GROUPS = [
    {"name": "main", "columns": ["id", "ra", "dec"], "threshold": "300 rows"},
    {"name": "more", "columns": "*", "threshold": "120 rows"},
]
SOURCE_GROUPS = [
    {"name": "main", "columns": ["source_id", "ra", "dec"], "threshold": "900 rows"},
    {"name": "light", "columns": ["flux", "object_id"], "threshold": "400 rows"},
    {"name": "more", "columns": "*", "threshold": "700 rows"},
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Objects, their sources in their pixels, and the same sources where they were seen; also by groups."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    objects = objects_table()
    sources = sources_table(objects)
    lake.ingest_objects(objects)
    lake.ingest_sources(sources)
    lake.ingest("scattered", sources)
    lake.ingest("objects_by_groups", objects, column_groups=OBJECT_GROUPS)
    lake.ingest("scattered_by_groups", sources, column_groups=SOURCE_GROUPS)
    return lake


def plan_of(frame: DataFrame) -> str:
    """The physical plan, as text."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_the_plan_of_a_co_partitioned_join_has_no_exchange(spark: SparkSession, lake: Lake, how: str) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    frame = objects.join(sources, on=ON, how=how, spark=spark)
    assert "Exchange" not in plan_of(frame)
    here = objects.join(sources, on=ON, how=how).to_pandas()
    same_frames(frame.toPandas(), here)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_a_shuffle_finds_pairs_whose_rows_lie_anywhere(spark: SparkSession, lake: Lake, how: str) -> None:
    objects, scattered = lake.open("objects"), lake.open("scattered")
    frame = objects.join(scattered, on=ON, how=how, shuffle=True, spark=spark)
    assert "Exchange" in plan_of(frame)
    right = lake.open("sources")
    here = objects.join(
        right, on=ON, how=how, other_columns=scattered.schema.names[1:], suffixes=("", "_scattered")
    )
    same_frames(frame.toPandas(), here.to_pandas())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_rows_are_filtered_before_a_shuffle_as_they_are_leaf_by_leaf(
    spark: SparkSession, lake: Lake, how: str
) -> None:
    """By columns that the outcome does not keep, and by an expression that Spark does not know."""
    objects, sources, scattered = (lake.open(name) for name in ("objects", "sources", "scattered"))
    options: dict[str, Any] = {
        "how": how,
        "columns": ["id"],
        "other_columns": ["source_id", "flux"],
        "filters": "class in (1, 2)",
        "other_filters": (pc.field("time") < 60500) & (pc.sqrt(pc.field("flux")) > 10),
    }
    here = objects.join(sources, on=ON, **options).to_pandas()
    assert len(here) > 100
    same_frames(objects.join(sources, on=ON, spark=spark, **options).toPandas(), here)
    shuffled = objects.join(scattered, on=ON, shuffle=True, spark=spark, **options)
    assert "Exchange" in plan_of(shuffled)
    same_frames(shuffled.toPandas(), here)
    whole = objects.join(scattered, on=ON, shuffle=True, spark=spark, how=how)
    assert [field for field in whole.schema if field.name in shuffled.columns] == list(shuffled.schema)
    options["other_filters"] = "flux < 0"
    nothing = objects.join(scattered, on=ON, shuffle=True, spark=spark, **options)
    assert nothing.count() == (0 if how == "inner" else objects.read(["id"], "class in (1, 2)").num_rows)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_groups_of_both_sides_are_joined_before_a_shuffle(spark: SparkSession, lake: Lake, how: str) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    options: dict[str, Any] = {
        "how": how,
        "columns": ["id", "class"],
        "other_columns": ["source_id", "flux", "time"],
        "filters": "class in (1, 2) or dec > 40",
        "other_filters": "flux > 95 and time < 60800",
    }
    here = objects.join(sources, on=ON, **options).to_pandas()
    assert len(here) > 100
    left, right = lake.open("objects_by_groups"), lake.open("scattered_by_groups")
    shuffled = left.join(right, on=ON, shuffle=True, spark=spark, **options)
    assert "Exchange" in plan_of(shuffled)
    same_frames(shuffled.toPandas(), here)


def same_frames(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    keys = [name for name in ("id", "source_id") if name in expected.columns]
    found, expected = (frame.sort_values(keys, ignore_index=True) for frame in (found, expected))
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_light_curves_are_nested_without_an_exchange(spark: SparkSession, lake: Lake) -> None:
    objects, sources = lake.open("objects"), lake.open("sources")
    options: dict[str, Any] = {"source_columns": ["source_id", "flux"], "source_filters": "time < 60500"}
    frame = objects.time_series(sources, ON, "time", spark=spark, **options)
    assert "Exchange" not in plan_of(frame)
    here = objects.time_series(sources, ON, "time", **options)
    assert frame.toArrow().select(["id", "sources"]).sort_by("id").to_pylist() == (
        here.select(["id", "sources"]).sort_by("id").to_pylist()
    )
