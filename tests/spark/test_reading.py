"""A catalog as a Spark DataFrame holds the rows that pyarrow reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError
from hipslake.sphere.pixels import Pixel

from tests.catalog.publishing import SHAPES, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
