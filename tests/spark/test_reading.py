"""A catalog as a Spark DataFrame holds the rows that pyarrow reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError
from hipslake.spark.catalog_frames import VECTORIZED
from hipslake.sphere.pixels import Pixel
from hipslake.sphere.regions import Box, Cone, PixelList, Polygon

from tests.catalog.publishing import SHAPES, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", ["hats", "hipscat, two groups"])
def test_spark_reads_what_pyarrow_reads(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    catalog = Catalog.open(publish(tmp_path, **SHAPES[shape]).storage.uri())
    frame = catalog.to_spark(spark)
    assert frame.columns == catalog.schema.names
    expected = catalog.read().sort_by("id").to_pylist()
    assert [row.asDict() for row in frame.orderBy("id").collect()] == expected

    wanted = [next(iter(catalog.pixels)), list(catalog.pixels)[-1].children()[1], Pixel(0, 4)]
    some = catalog.to_spark(spark, columns=["note", "id"], pixels=wanted)
    expected = catalog.read(["note", "id"], pixels=wanted).sort_by("id").to_pylist()
    assert 0 < len(expected) < 3000
    assert [row.asDict() for row in some.orderBy("id").collect()] == expected

    assert catalog.to_spark(spark, pixels=[]).count() == 0
    with pytest.raises(SchemaMismatchError, match="did you mean 'note'"):
        catalog.to_spark(spark, columns=["notes"])


@pytest.fixture
def vectorized(spark: SparkSession) -> Iterator[Callable[[], bool]]:
    """Whether Spark's vectorized reader is on in the session; it is on before and after."""
    yield lambda: spark.conf.get(VECTORIZED) == "true"
    spark.conf.set(VECTORIZED, "true")


@pytest.mark.parametrize("floats", ["plain", "byte_stream_split"])
def test_split_floats_are_read_by_the_reader_that_can(
    spark: SparkSession, tmp_path: Path, floats: str, vectorized: Callable[[], bool]
) -> None:
    catalog = Catalog.open(publish(tmp_path, parquet={"floats": floats}).storage.uri())
    frame = catalog.to_spark(spark, columns=["id", "ra", "mag"])
    assert vectorized() == (floats == "plain" or not spark.version.startswith(("4.0.", "4.1.", "4.2.")))
    expected = catalog.read(["id", "ra", "mag"]).sort_by("id").to_pylist()
    assert [row.asDict() for row in frame.orderBy("id").collect()] == expected


REGIONS = [
    Cone(80, 12, 30),
    Box(350, 10, -5, 25),
    Polygon([(0, 70), (120, 70), (240, 70)]),
    PixelList([(1, 5), (3, 300)]),
    Cone(10, 10, 0),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", ["hats", "hipscat, two groups"])
def test_spark_reads_the_same_regions(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    catalog = Catalog.open(publish(tmp_path, **SHAPES[shape]).storage.uri())
    for region in REGIONS:
        expected = catalog.read(["id", "note"], region=region).sort_by("id").to_pylist()
        found = catalog.to_spark(spark, columns=["id", "note"], region=region).orderBy("id").collect()
        assert [row.asDict() for row in found] == expected
    pixels = [Pixel(0, 5), Pixel(1, 7)]
    both = catalog.to_spark(spark, columns=["note"], pixels=pixels, region="cone 80 12 30deg")
    assert 0 < both.count() == catalog.read(["note"], pixels=pixels, region="cone 80 12 30deg").num_rows


def test_spark_opens_only_the_leaves_of_a_region_and_skips_by_ranges(
    spark: SparkSession, tmp_path: Path
) -> None:
    catalog = Catalog.open(publish(tmp_path, **SHAPES["hats"]).storage.uri())
    frame = catalog.to_spark(spark, columns=["id"], region=Cone(80, 12, 3))
    assert len(frame.inputFiles()) == len(catalog.pixels_in(Cone(80, 12, 3))) < len(catalog.pixels)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [Or(" in plan
