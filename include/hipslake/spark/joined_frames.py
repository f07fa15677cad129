"""The equi-join of two catalogs as a Spark DataFrame: leaf by leaf, or through a shuffle where it must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.joining.equijoin import Equijoin
from hipslake.catalog.joining.join import PIECE_ROWS, Keyed, KeyedJoin
from hipslake.catalog.joining.stretches import Stretches, StretchPlan, plan_stretches
from hipslake.planning.splits import assign_targets
from hipslake.spark.catalog_frames import quoted, read_spark
from hipslake.sphere.pixels import HEALPIX_COLUMN

BATCH_ROWS = 1 << 16
_TASKS_PER_CORE = 4
_LEFT_KEY, _RIGHT_KEY = "hipslake left key", "hipslake right key"  # no columns of ours have spaces


def leaf_by_leaf(spark: SparkSession, join: KeyedJoin) -> DataFrame:
    """The outcome of a join whose keys are co-partitioned; its plan has no exchange.

    Parameters
    ----------
    spark : SparkSession
    join : KeyedJoin
        An equi-join, or a nesting of sources in their objects.
    """
    schema = from_arrow_schema(as_spark_has_it(join.schema))
    return by_stretches(spark, join.table, join.stretches(join.task_rows), schema)


Rows = Callable[[int, int], pa.Table]
"""Gives the rows in a stretch of the curve: order-29 pixels, [start, stop). Travels with tasks."""


def by_stretches(spark: SparkSession, rows: Rows, pieces: StretchPlan, schema: StructType) -> DataFrame:
    """The rows of each piece, lazily: a few pieces are a task, and nothing moves between tasks."""
    if not len(pieces):
        return spark.createDataFrame([], schema)
    most = int(pieces.rows.sum()) // (_TASKS_PER_CORE * spark.sparkContext.defaultParallelism) + 1
    tasks = assign_targets(pieces.rows, most)
    arrow = to_arrow_schema(schema, timezone="UTC")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_numpy():
                for piece in np.flatnonzero(tasks == number).tolist():
                    found = rows(int(pieces.start[piece]), int(pieces.stop[piece]))
                    yield from found.select(arrow.names).cast(arrow).to_batches(BATCH_ROWS)

    numbers = spark.range(0, int(tasks[-1]) + 1, 1, int(tasks[-1]) + 1)
    return numbers.mapInArrow(read, schema)


def joined_by_shuffle(spark: SparkSession, join: Equijoin) -> DataFrame:
    """The outcome of a join through Spark's own, which finds every pair wherever its rows lie."""
    left = _frame(spark, join.left, join.columns.left, _LEFT_KEY, keep_place=True)
    right = _frame(spark, join.right, join.columns.right, _RIGHT_KEY, keep_place=False)
    kinds = {"inner": "inner", "left": "left_outer", "anti": "left_anti"}
    joined = left.join(right, on=left[_LEFT_KEY] == right[_RIGHT_KEY], how=kinds[join.how])
    return joined.select(*map(quoted, join.schema.names))


def _frame(
    spark: SparkSession, side: Keyed, names: dict[str, str], key: str, *, keep_place: bool
) -> DataFrame:
    """The columns of a side under the names of the outcome, and its key.

    A filter may be any expression of Arrow: where there is one, it is Arrow that reads.
    """
    read = list(dict.fromkeys([*([HEALPIX_COLUMN] if keep_place else []), side.key, *names]))
    frame = read_spark(CatalogReader(side.storage, side.metadata), spark, columns=read)
    if side.filter is not None:
        columns = [name for name in read if name != HEALPIX_COLUMN]
        passing = Stretches(side.storage, side.metadata, columns, side.filter)
        plan = plan_stretches(side.storage, side.metadata, PIECE_ROWS)
        frame = by_stretches(spark, passing.read, plan, frame.schema)
    place = [quoted(HEALPIX_COLUMN)] if keep_place else []
    renamed = [quoted(name).alias(given) for name, given in names.items()]
    return frame.select(*place, quoted(side.key).alias(key), *renamed)


def as_spark_has_it(schema: pa.Schema) -> pa.Schema:
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
