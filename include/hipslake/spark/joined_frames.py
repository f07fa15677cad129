"""The equi-join of two catalogs as a Spark DataFrame: leaf by leaf, or through a shuffle where it must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from hipslake.catalog.catalog import Catalog
from hipslake.catalog.joining.equijoin import Equijoin, Keyed
from hipslake.catalog.joining.stretch_plan import StretchPlan
from hipslake.catalog.joining.time_series import TimeSeries
from hipslake.planning.splits import assign_targets
from hipslake.sphere.pixels import HEALPIX_COLUMN

BATCH_ROWS = 1 << 16
_TASKS_PER_CORE = 4
_LEFT_KEY, _RIGHT_KEY = "hipslake left key", "hipslake right key"  # no columns of ours have spaces


def joined_leaf_by_leaf(spark: SparkSession, join: Equijoin) -> DataFrame:
    """The outcome of a join whose keys are co-partitioned; its plan has no exchange.

    Parameters
    ----------
    spark : SparkSession
    join : Equijoin
    """
    return by_stretches(spark, join, join.pieces(), join.schema)


def nested_leaf_by_leaf(spark: SparkSession, series: TimeSeries) -> DataFrame:
    """Objects with their sources nested; the plan has no exchange.

    Parameters
    ----------
    spark : SparkSession
    series : TimeSeries
    """
    return by_stretches(spark, series, series.pieces(), series.schema)


def by_stretches(
    spark: SparkSession, join: Equijoin | TimeSeries, pieces: StretchPlan, schema: pa.Schema
) -> DataFrame:
    """What each piece of a join gives, lazily: a few pieces are a task, and nothing moves between tasks."""
    result = from_arrow_schema(_as_spark_has_it(schema))
    if not len(pieces):
        return spark.createDataFrame([], result)
    most = int(pieces.rows.sum()) // (_TASKS_PER_CORE * spark.sparkContext.defaultParallelism) + 1
    tasks = assign_targets(pieces.rows, most)
    task = PiecesTask(join, pieces, tasks, to_arrow_schema(result))
    numbers = spark.range(0, int(tasks[-1]) + 1, 1, int(tasks[-1]) + 1)
    return numbers.mapInArrow(task, result)


@dataclass(frozen=True)
class PiecesTask:
    """Joins the pieces of each task."""

    join: Equijoin | TimeSeries
    pieces: StretchPlan
    tasks: np.ndarray
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the outcome in the order of the left side."""
        for batch in batches:
            for number in batch.column(0).to_numpy():
                for piece in np.flatnonzero(self.tasks == number).tolist():
                    found = self.join.joined(int(self.pieces.start[piece]), int(self.pieces.stop[piece]))
                    yield from found.cast(self.schema).to_batches(BATCH_ROWS)


def joined_by_shuffle(spark: SparkSession, join: Equijoin) -> DataFrame:
    """The outcome of a join through Spark's own, which finds every pair wherever its rows lie."""
    left = _frame(spark, join.left, join.columns.left, _LEFT_KEY, keep_place=True)
    right = _frame(spark, join.right, join.columns.right, _RIGHT_KEY, keep_place=False)
    kinds = {"inner": "inner", "left": "left_outer", "anti": "left_anti"}
    joined = left.join(right, on=left[_LEFT_KEY] == right[_RIGHT_KEY], how=kinds[join.how])
    return joined.select(*map(_quoted, join.schema.names))


def _frame(
    spark: SparkSession, side: Keyed, names: dict[str, str], key: str, *, keep_place: bool
) -> DataFrame:
    """The columns of a side under the names of the outcome, and its key."""
    read = list(dict.fromkeys([*([HEALPIX_COLUMN] if keep_place else []), side.key, *names]))
    frame = Catalog(side.storage, side.metadata).to_spark(spark, read)
    place = [_quoted(HEALPIX_COLUMN)] if keep_place else []
    renamed = [_quoted(name).alias(given) for name, given in names.items()]
    return frame.select(*place, _quoted(side.key).alias(key), *renamed)


def _as_spark_has_it(schema: pa.Schema) -> pa.Schema:
    """Spark has no unsigned numbers, no half floats and no dictionaries."""
    return pa.schema([field.with_type(_spark_type(field.type)).remove_metadata() for field in schema])


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_spark_type(field.type)) for field in kind])
    return wider.get(kind, kind)


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
