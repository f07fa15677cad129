"""The outcome of a cube query as a Spark DataFrame: planned here, read and joined by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from hipslake.cube.conditions import Conditions, Conjunction
from hipslake.cube.joining import concatenated
from hipslake.cube.outcome import read_partition
from hipslake.cube.plan import PartitionRead, QueryPlan
from hipslake.cube.store.cube import Cube
from hipslake.cube.store.files import read_rows
from hipslake.spark.exchange import run_tasks
from hipslake.storage import Storage

_TASKS_PER_CORE = 4


def query_frame(
    spark: SparkSession,
    cube: Cube,
    columns: Iterable[str] | None = None,
    conditions: Conditions = None,
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
    cube : Cube
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
    tasks = _tasks(plan, int(spark.sparkContext.defaultParallelism) * _TASKS_PER_CORE)
    result = from_arrow_schema(plan.schema)
    if not tasks:
        return spark.createDataFrame([], result)
    work = _QueryTasks(cube.storage, plan.without_files(), tuple(tuple(task) for task in tasks))
    return run_tasks(spark, sources=len(tasks), task=work, result=result)


@dataclass(frozen=True)
class _QueryTasks:
    """Tasks that read and join partitions, some each."""

    storage: Storage
    plan: QueryPlan
    tasks: tuple[tuple[PartitionRead, ...], ...]

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        plan = self.plan

        def load(
            dataset: str, labels: Sequence[str], columns: Sequence[str], conditions: Conjunction
        ) -> pa.Table:
            return read_rows(self.storage, labels, plan.loaded_schema(dataset), conditions)

        for together in _runs(plan, self.tasks[task]):
            rows = concatenated(
                [read_partition(plan, read, load) for read in together],
                plan.intention.dimension_columns,
                plan.cube.partition_columns,
            )
            yield from rows.to_batches()


def _runs(plan: QueryPlan, reads: Sequence[PartitionRead]) -> Iterator[list[PartitionRead]]:
    """The partitions whose rows are sorted together: those of a group, or each alone."""
    if not plan.intention.partition_by:
        yield from ([read] for read in reads)
        return
    for _, group in groupby(reads, key=lambda read: read.group):
        yield list(group)


def _tasks(plan: QueryPlan, most: int) -> list[list[PartitionRead]]:
    """Runs of partitions, about as many as asked for; a group is never in two."""
    reads = list(plan.reads())
    share = max(1, -(-len(reads) // most))
    found: list[list[PartitionRead]] = []
    for together in _runs(plan, reads):
        if found and len(found[-1]) < share:
            found[-1] += together
        else:
            found.append(together)
    return found
