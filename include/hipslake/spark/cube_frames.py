"""The outcome of a cube query as a Spark DataFrame: planned here, read and joined by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from hipslake.cube.store.cube_reader import CubeReader
from hipslake.cube.store.query_tasks import AnswerTasks
from hipslake.predicates.conditions import Conditions
from hipslake.spark.exchange import run_tasks


def query_frame(
    spark: SparkSession,
    cube: CubeReader,
    columns: Iterable[str] | None = None,
    conditions: Conditions | str = None,
    partition_by: str | Sequence[str] | None = None,
    dimension_columns: str | Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of a cube that meet some conditions, lazily.

    With `partition_by`, all rows of a group are in one partition of the frame, and the partitions follow the
    order of the groups; without, they follow that of the cube's partition columns.

    Parameters
    ----------
    spark : SparkSession
    cube : hipslake.Cube
    columns, conditions, partition_by, dimension_columns, datasets
        As for `Cube.query`.

    Raises
    ------
    CubeError
        The cube lacks what is asked for.
    ConditionTypeError
        A condition compares a column with a value of another type.
    """
    plan = cube.plan(columns, conditions, partition_by, dimension_columns, datasets)
    work = AnswerTasks.of(cube.storage, plan, int(spark.sparkContext.defaultParallelism))
    result = from_arrow_schema(plan.schema)
    if not work.tasks:
        return spark.createDataFrame([], result)

    def batches(task: int) -> Iterator[pa.RecordBatch]:
        for rows in work.tables(task):
            yield from rows.to_batches()

    return run_tasks(spark, sources=len(work.tasks), task=batches, result=result)
