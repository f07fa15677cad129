"""A function called leaf by leaf in Spark: what threads give."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError
from pyspark.sql import SparkSession

from tests.api.catalogs import publish_many_kinds


def nearest(rows: pa.Table) -> pa.Table:
    return rows.sort_by("id").slice(0, 3).select(["id", "mag", "note"])


@pytest.mark.spark
def test_spark_gives_what_threads_give(spark: SparkSession, tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats, two groups")
    catalog = Catalog.open(published.storage.uri())
    options = {"columns": ["id", "mag", "note"], "filters": "mag is not nan", "region": "cone 180 10 60deg"}
    by_spark = catalog.map_partitions(nearest, spark=spark, **options)  # type: ignore[arg-type]
    by_threads = catalog.map_partitions(nearest, **options)  # type: ignore[arg-type]
    assert by_threads.num_rows > 20
    assert by_spark.equals(by_threads)
    with pytest.raises(SchemaMismatchError, match=r"Norder=.*which is no date32"):
        catalog.map_partitions(
            lambda rows: rows, columns=["note"], schema=pa.schema({"note": pa.date32()}), spark=spark
        )
