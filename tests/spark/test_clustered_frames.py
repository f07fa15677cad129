"""Clustering of DataFrames: what is done in the JVM is held against the pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.range_ids import RangeBounds as ArrowRanges
from hipslake.errors import InputError, SpecError
from hipslake.spark.clustered_frames import (
    HilbertClustering,
    MultiDimClustering,
    RangeBounds,
    SpaceFillingCurveClustering,
    ZOrderClustering,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

CURVES = [ZOrderClustering, HilbertClustering]

VALUES: dict[str, tuple[str, list[Any]]] = {
    "tiny": ("tinyint", [-128, 0, 127]),
    "big": ("bigint", [-(2**63), -1, 0, 2**63 - 1]),
    "real": ("float", [float("-inf"), -0.0, 0.0, 0.1, float("inf"), float("nan")]),
    "number": ("double", [float("-inf"), -1e300, -0.0, 0.0, 1e-300, 0.1, float("inf"), float("nan")]),
    "price": ("decimal(20,4)", [Decimal("-9999999999.5"), Decimal("0"), Decimal("0.0001")]),
    "flag": ("boolean", [False, True]),
    "name": ("string", ["", "A", "a", 'quote " and \\', "line\nend", "ä", "日本", "🔭"]),
    "bytes": ("binary", [b"", b"\x00", b"\x00\x01", b"\x7f", b"\xff"]),
    "day": ("date", [date(1, 1, 1), date(1969, 12, 31), date(2026, 11, 22)]),
    "moment": ("timestamp", [datetime(1900, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 9, UTC)]),
    "clock": ("timestamp_ntz", [datetime(1900, 1, 1), datetime(2026, 3, 29, 2, 30), datetime(2027, 1, 1)]),
}  # fmt: skip


def partitions(df: DataFrame) -> pa.Table:
    """The rows of a DataFrame with the number of their partition."""
    return df.withColumn("partition", F.spark_partition_id()).toArrow()


@pytest.mark.parametrize("clustering", CURVES)
def test_the_demo_of_the_founding_document(
    spark: SparkSession, clustering: type[SpaceFillingCurveClustering]
) -> None:
    clustered = clustering().cluster(spark.range(5), ["id"], 3)
    assert clustered.columns == ["id"]
    assert clustered.rdd.getNumPartitions() == 3
    rows = partitions(clustered).sort_by("id")
    assert rows["partition"].to_pylist() == [0, 0, 1, 1, 2]


def test_the_classes_are_those_of_the_contract() -> None:
    for curve in CURVES:
        assert issubclass(curve, SpaceFillingCurveClustering)
    assert issubclass(SpaceFillingCurveClustering, MultiDimClustering)


@pytest.fixture(scope="module")
def every_type(spark: SparkSession) -> DataFrame:
    """A column per type: every value, and null."""
    longest = max(len(values) for _, values in VALUES.values()) + 1
    rows = [
        tuple([None, *values][row % (len(values) + 1)] for _, values in VALUES.values())
        for row in range(longest)
    ]
    schema = ", ".join(f"`{name}` {kind}" for name, (kind, _) in VALUES.items())
    return spark.createDataFrame(rows, schema).withColumn("other", F.col("big") % 3).cache()


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("clustering", CURVES)
def test_keys_in_the_jvm_are_those_of_numpy_for_every_type(
    every_type: DataFrame, name: str, clustering: type[SpaceFillingCurveClustering]
) -> None:
    chosen = clustering()
    bounds = RangeBounds.sample(every_type, [name, "other"])
    key = chosen.get_clustering_expression([F.col(name), F.col("other")], bounds)
    rows = every_type.select(name, "other", key.alias("key")).toArrow()
    oracle = ArrowRanges.of_sample(rows, [name, "other"])
    assert rows["key"].to_pylist() == oracle.keys(rows, chosen.curve).tolist()


@pytest.mark.parametrize(
    ("clustering", "columns"),
    [
        *[(ZOrderClustering, 1), pytest.param(ZOrderClustering, 6, marks=pytest.mark.slow)],
        *[(HilbertClustering, columns) for columns in (1, 2, 3)],
        pytest.param(HilbertClustering, 4, marks=pytest.mark.slow),
    ],
)
def test_keys_in_the_jvm_are_those_of_numpy_for_any_number_of_columns(
    spark: SparkSession, clustering: type[SpaceFillingCurveClustering], columns: int
) -> None:
    names = [f"c{n}" for n in range(columns)]
    df = spark.createDataFrame(
        pa.table({n: np.random.default_rng(i).random(2000) for i, n in enumerate(names)})
    )
    bounds = RangeBounds.sample(df, names, rows=500)
    key = clustering().get_clustering_expression([F.col(name) for name in names], bounds)
    rows = df.select(*names, key.alias("key")).toArrow()
    assert rows["key"].to_pylist() == bounds.keys(rows, clustering.curve).tolist()


@pytest.fixture(scope="module")
def sky(spark: SparkSession) -> DataFrame:
    random = np.random.default_rng(1)
    rows = pa.table({"ra": random.random(20_000), "dec": random.normal(size=20_000), "kind": ["a"] * 20_000})
    return spark.createDataFrame(rows).repartition(4).cache()


@pytest.mark.parametrize("clustering", CURVES)
def test_partitions_are_even_and_skip(sky: DataFrame, clustering: type[SpaceFillingCurveClustering]) -> None:
    rows = partitions(clustering().cluster(sky, ["ra", "dec"], 64))
    files = rows["partition"].to_numpy()
    sizes = np.bincount(files, minlength=64)
    assert sizes.min() > 0.8 * 20_000 / 64
    assert sizes.max() < 1.2 * 20_000 / 64
    points = np.column_stack([rows["ra"].to_numpy(), rows["dec"].to_numpy()])
    low = np.random.default_rng(0).uniform([0, -1], [0.9, 0.7], (500, 2))
    high = low + np.array([0.1, 0.3])

    def touched(files: np.ndarray) -> float:
        return FileBoxes.of_rows(points, files).touched(low, high).mean()

    by_one_column = [touched(np.argsort(np.argsort(column)) * 64 // 20_000) for column in points.T]
    assert touched(files) < 0.9 * min(by_one_column)


def test_the_same_seed_gives_the_same_partitions(sky: DataFrame) -> None:
    def files(seed: int) -> list[int]:
        clustered = HilbertClustering(seed=seed).cluster(sky, ["kind"], 5)
        return partitions(clustered).sort_by("ra")["partition"].to_pylist()

    assert files(3) == files(3)
    assert files(3) != files(4)


def test_equal_keys_are_split_by_noise_and_stay_together_without(sky: DataFrame) -> None:
    with_noise = partitions(ZOrderClustering().cluster(sky, ["kind"], 4))["partition"].to_numpy()
    assert np.bincount(with_noise, minlength=4).min() > 4000
    without = partitions(ZOrderClustering(add_noise=False).cluster(sky, ["kind"], 4))["partition"]
    assert len(without.unique()) == 1


def test_rows_within_a_partition_can_be_sorted_along_the_curve(sky: DataFrame) -> None:
    bounds = RangeBounds.sample(sky, ["ra", "dec"], seed=0)
    clustered = HilbertClustering(sort_within_files=True, num_ranges=1000).cluster(sky, ["ra", "dec"], 3)
    rows = partitions(clustered)
    keys = bounds.keys(rows, HilbertClustering.curve)
    files = rows["partition"].to_numpy()
    for file in range(3):
        assert (np.diff(keys[files == file].astype(np.int64)) >= 0).all()


def test_rows_and_columns_stay_what_they_are(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [(1, "x", [1]), (1, "x", [1]), (None, "y", None)], "`a.b` int, `c``d` string, e array<int>"
    )
    clustered = ZOrderClustering(sort_within_files=True).cluster(df, ["c`d", "a.b"], 2)
    assert clustered.schema == df.schema
    assert sorted(map(str, clustered.collect())) == sorted(map(str, df.collect()))


@pytest.fixture
def tiny_batches(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "4"


def test_no_row_goes_through_python(tiny_batches: SparkSession) -> None:
    """The sessions of this project hand 4 rows at a time to Python, as a row may be a block of 32 MB."""
    clustered = HilbertClustering().cluster(tiny_batches.range(100), ["id"], 2)
    plan = clustered._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
    assert "InArrow" not in plan
    assert "repartition_by_id" in plan.lower() or "shufflepartitionid" in plan.lower().replace("_", "")


def test_an_empty_dataframe_stays_empty(spark: SparkSession) -> None:
    clustered = HilbertClustering().cluster(spark.range(0), ["id"], 3)
    assert clustered.count() == 0
    assert clustered.rdd.getNumPartitions() == 3


@pytest.mark.parametrize(
    ("columns", "number", "error", "message"),
    [
        ([], 3, SpecError, "no columns to cluster by: name at least one"),
        (["flux"], 3, SpecError, "no column flux to cluster by; there are id, tags"),
        (["id", "id"], 3, SpecError, "column id is named twice"),
        (["tags"], 3, InputError, "column tags is array<string>, whose values have no order"),
        (["id"], 0, SpecError, "0 partitions"),
    ],
)
def test_what_cannot_be_clustered_is_told_before_any_job(
    spark: SparkSession, columns: list[str], number: int, error: type[Exception], message: str
) -> None:
    df = spark.createDataFrame([(1, ["a"])], "id int, tags array<string>")
    with pytest.raises(error, match=message):
        ZOrderClustering().cluster(df, columns, number)


def test_hilbert_by_five_columns_is_told(spark: SparkSession) -> None:
    df = spark.range(3).select(*[F.col("id").alias(f"c{n}") for n in range(5)])
    with pytest.raises(
        SpecError, match="5 columns to cluster by: the Hilbert curve takes up to 4 on a DataFrame"
    ):
        HilbertClustering().cluster(df, df.columns, 2)


def test_bounds_of_other_columns_are_refused(spark: SparkSession) -> None:
    bounds = RangeBounds.sample(spark.range(3), ["id"])
    with pytest.raises(SpecError, match="2 columns and bounds of 1"):
        ZOrderClustering().get_clustering_expression([F.col("id"), F.col("id")], bounds)
