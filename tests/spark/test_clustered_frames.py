"""Clustering of DataFrames: rows and their columns stay, and lie where the functions of numpy put them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import cluster
from hipslake.clustering.curves import Curve
from hipslake.clustering.file_placement import Placement
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.range_ids import RangeBounds
from hipslake.errors import InputError, SpecError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

pytestmark = pytest.mark.sampled(2)

CURVES = [curve.value for curve in Curve]

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


def in_python_order(value: Any) -> tuple:
    """What Python orders as the values are: nulls first, NaN last, text by its UTF-8 bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize("curve", CURVES)
def test_the_demo_of_the_founding_document(spark: SparkSession, curve: str) -> None:
    clustered = cluster(spark.range(5), ["id"], curve=curve, files=3)
    assert clustered.columns == ["id"]
    assert clustered.rdd.getNumPartitions() == 3
    rows = partitions(clustered).sort_by("id")
    assert rows["partition"].to_pylist() == [0, 0, 1, 1, 2]


def test_without_a_number_of_files_there_are_as_many_as_spark_shuffles_into(spark: SparkSession) -> None:
    clustered = cluster(spark.range(5), ["id"])
    assert clustered.rdd.getNumPartitions() == int(spark.conf.get("spark.sql.shuffle.partitions") or 0)


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


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", VALUES)
def test_partitions_follow_the_order_of_values_of_every_type(every_type: DataFrame, name: str) -> None:
    rows = partitions(cluster(every_type, [name], files=6, add_noise=False))
    found = sorted(
        (in_python_order(value), file)
        for value, file in zip(rows[name].to_pylist(), rows["partition"].to_pylist(), strict=True)
    )
    files = [file for _, file in found]
    assert files == sorted(files)
    assert len(set(files)) > 1
    of_value: dict[tuple, int] = {}
    assert all(of_value.setdefault(value, file) == file for value, file in found)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("curve", CURVES)
def test_rows_lie_where_numpy_places_them_for_every_type(
    every_type: DataFrame, name: str, curve: str
) -> None:
    rows = partitions(cluster(every_type, [name, "other"], curve=curve, files=6, add_noise=False))
    bounds = RangeBounds.of_sample(rows, [name, "other"])  # so few rows are all in the sample
    placement = Placement.plan(bounds, Curve(curve), 6, add_noise=False)
    assert rows["partition"].to_pylist() == placement.place(rows, np.arange(rows.num_rows))[0].tolist()


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("curve", "columns"),
    [
        *[("zorder", 1), ("zorder", 6), ("hilbert", 1), ("hilbert", 2), ("hilbert", 3)],
        *[("hilbert", 4), ("hilbert", 5), ("hilbert", 9), ("hilbert", 63)],
    ],
)
def test_rows_lie_where_numpy_places_them_for_any_number_of_columns(
    spark: SparkSession, curve: str, columns: int
) -> None:
    names = [f"c{n}" for n in range(columns)]
    df = spark.createDataFrame(
        pa.table({n: np.random.default_rng(i).random(2000) for i, n in enumerate(names)})
    )
    rows = partitions(cluster(df, names, curve=curve, files=32, add_noise=False, sort_within_files=True))
    placement = Placement.plan(RangeBounds.of_sample(rows, names), Curve(curve), 32, add_noise=False)
    files, keys = placement.place(rows, np.arange(rows.num_rows))
    assert rows["partition"].to_pylist() == files.tolist()
    assert (np.diff(keys.astype(np.int64)) >= 0).all()


@pytest.fixture(scope="module")
def sky(spark: SparkSession) -> DataFrame:
    random = np.random.default_rng(1)
    rows = pa.table({"ra": random.random(20_000), "dec": random.normal(size=20_000), "kind": ["a"] * 20_000})
    return spark.createDataFrame(rows).repartition(4).cache()


@pytest.mark.parametrize("curve", CURVES)
def test_partitions_are_even_and_skip_as_well_as_those_of_a_compacted_table(
    sky: DataFrame, curve: str
) -> None:
    rows = partitions(cluster(sky, ["ra", "dec"], curve=curve, files=64))
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
    compaction = Placement.plan(RangeBounds.of_sample(rows, ["ra", "dec"]), Curve(curve), 64)
    assert touched(files) < 1.05 * touched(compaction.place(rows, np.arange(20_000))[0])


def test_the_same_seed_gives_the_same_partitions(sky: DataFrame) -> None:
    def files(seed: int) -> list[int]:
        clustered = cluster(sky, ["kind"], files=5, seed=seed)
        return partitions(clustered).sort_by("ra")["partition"].to_pylist()

    assert files(3) == files(3)
    assert files(3) != files(4)


def test_equal_keys_are_split_by_noise_and_stay_together_without(sky: DataFrame) -> None:
    with_noise = partitions(cluster(sky, ["kind"], curve="zorder", files=4))["partition"].to_numpy()
    assert np.bincount(with_noise, minlength=4).min() > 4000
    without = partitions(cluster(sky, ["kind"], curve="zorder", files=4, add_noise=False))["partition"]
    assert len(without.unique()) == 1


def test_rows_within_a_partition_can_be_sorted_along_the_curve(sky: DataFrame) -> None:
    rows = partitions(cluster(sky, ["ra", "dec"], files=3, sort_within_files=True))
    bounds = RangeBounds.of_sample(rows, ["ra", "dec"])  # the sample has all of the 20,000 rows
    keys = bounds.keys(rows, Curve.HILBERT)
    files = rows["partition"].to_numpy()
    for file in range(3):
        assert (np.diff(keys[files == file].astype(np.int64)) >= 0).all()


def test_rows_and_columns_stay_what_they_are(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [(1, "x", [1]), (1, "x", [1]), (None, "y", None)], "`a.b` int, `c``d` string, e array<int>"
    )
    clustered = cluster(df, ["c`d", "a.b"], curve="zorder", files=2, sort_within_files=True)
    assert clustered.schema == df.schema
    assert sorted(map(str, clustered.collect())) == sorted(map(str, df.collect()))


def test_columns_that_arrow_does_not_have_and_names_that_occur_twice_stay(spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT id, id % 7 AS twice, id % 3 AS twice, map(id, id) AS m, INTERVAL '1' YEAR AS age, "
        "parse_json('{}') AS v FROM range(100)"
    )
    clustered = cluster(df, ["id"], files=3, sort_within_files=True)
    assert clustered.schema == df.schema
    as_texts = "id", "m[id]", "CAST(age AS STRING)", "CAST(v AS STRING)"
    found = (sorted(map(str, frame.selectExpr(*as_texts).collect())) for frame in (clustered, df))
    assert next(found) == next(found)


def test_only_the_clustering_columns_go_to_python(sky: DataFrame) -> None:
    plan = cluster(sky, ["ra"], files=2)._jdf.queryExecution().executedPlan().toString()
    evaluated = next(line for line in plan.splitlines() if "ArrowEvalPython" in line)
    assert "ra#" in evaluated.split("]")[0]
    assert "dec#" not in evaluated.split("]")[0]
    assert "InArrow" not in plan
    assert "repartition_by_id" in plan.lower() or "shufflepartitionid" in plan.lower().replace("_", "")


def test_an_empty_dataframe_stays_empty(spark: SparkSession) -> None:
    clustered = cluster(spark.range(0), ["id"], files=3)
    assert clustered.count() == 0
    assert clustered.rdd.getNumPartitions() == 3


@pytest.fixture(params=[False, True], ids=["names in any case", "names in their case"])
def case_sensitive(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    spark.conf.set("spark.sql.caseSensitive", str(request.param).lower())
    yield request.param
    spark.conf.unset("spark.sql.caseSensitive")


NAMES = {
    "a plain name": "id",
    "a field": "place.ra",
    "a field of a field": "place.inner.x",
    "a field in backticks": "`place`.`ra`",
    "a dot in a name": "flux.g",
    "a dot in a name, in backticks": "`flux.g`",
    "a backtick in a name": "od`d",
    "a space in a name": "two words",
    "a name of other letters": "größe",
    "a value of a map": "m.k",
    "a frame's own name": "t.id",
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_names_are_those_that_spark_resolves(spark: SparkSession, case_sensitive: bool, name: str) -> None:
    df = spark.range(12).selectExpr(
        "id",
        "struct(id AS ra, struct(id AS x) AS inner) AS place",
        "id AS `flux.g`",
        "id AS `od``d`",
        "id AS `two words`",
        "id AS `größe`",
        "map('k', id) AS m",
    )
    rows = partitions(cluster(df.alias("t"), [name], files=3)).sort_by("id")
    assert rows["partition"].to_pylist() == [0] * 4 + [1] * 4 + [2] * 4
    assert rows.column_names == [*df.columns, "partition"]


def test_names_follow_the_case_rule_of_the_session(spark: SparkSession, case_sensitive: bool) -> None:
    df = spark.range(4).selectExpr("id AS Ra", "struct(id AS Dec) AS Place")
    if not case_sensitive:
        assert cluster(df, ["rA", "pLACE.dEC"], files=2).columns == ["Ra", "Place"]
        with pytest.raises(SpecError, match="column ra is named twice"):
            cluster(df, ["ra", "RA"], files=2)
        return
    assert cluster(df, ["Ra", "Place.Dec"], files=2).columns == ["Ra", "Place"]
    for wrong in ("ra", "Place.dec"):
        with pytest.raises(SpecError, match=f"no column {wrong} to cluster by; there are Ra, Place"):
            cluster(df, [wrong], files=2)


def test_names_of_several_columns_are_told(spark: SparkSession, case_sensitive: bool) -> None:
    df = spark.range(4).selectExpr(
        "id AS a", "id AS A", "id AS b", "id AS b", "struct(id AS x, id AS X) AS s"
    )
    with pytest.raises(SpecError, match="there are several columns b: rename them to cluster by one"):
        cluster(df, ["b"], files=2)
    for name in ("a", "s.x"):
        if case_sensitive:
            assert cluster(df, [name], files=2).count() == 4
        else:
            with pytest.raises(SpecError, match=f"there are several columns {name}"):
                cluster(df, [name], files=2)


def test_a_name_of_a_column_and_of_a_field_is_told(spark: SparkSession) -> None:
    df = spark.range(4).selectExpr("id AS `a.b`", "struct(-id AS b) AS a")
    with pytest.raises(SpecError, match=r"a\.b may be a column of this name or a field in one: write `a\.b`"):
        cluster(df, ["a.b"], files=2)
    for name, expected in (("`a.b`", [0, 0, 1, 1]), ("`a`.`b`", [1, 1, 0, 0])):
        rows = partitions(cluster(df, [name], files=2)).sort_by("a.b")
        assert rows["partition"].to_pylist() == expected


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ([], SpecError, "no columns to cluster by: name at least one"),
        (["flux"], SpecError, "no column flux to cluster by; there are id, tags, place"),
        (
            ["place.z", "*", "id"],
            SpecError,
            r"no column \*, place.z to cluster by; there are id, tags",
        ),
        (["id", "id"], SpecError, "column id is named twice"),
        (["id", "`id`"], SpecError, "column id is named twice"),
        (["tags"], InputError, "column tags is array<string>, whose values have no order"),
        (["place"], InputError, "column place is struct<x:int>, whose values have no order"),
        (["age"], InputError, "column age is interval year, whose values have no order"),
    ],
)
def test_columns_that_cannot_be_clustered_by_are_told_before_any_job(
    spark: SparkSession, columns: list[str], error: type[Exception], message: str
) -> None:
    df = spark.sql("SELECT 1 AS id, array('a') AS tags, struct(1 AS x) AS place, INTERVAL '1' YEAR AS age")
    with pytest.raises(error, match=message):
        cluster(df, columns, files=3)


def test_too_many_columns_are_told(spark: SparkSession) -> None:
    df = spark.range(3).select(*[F.col("id").alias(f"c{n}") for n in range(64)])
    with pytest.raises(SpecError, match="64 columns to cluster by: a key has room for 63"):
        cluster(df, df.columns, files=2)
