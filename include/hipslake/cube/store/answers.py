"""The answer to a query as files: read, joined and written by tasks, on any engine.

No task holds more than the partitions that belong together, so an answer may be larger than the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from hipslake.cube.conditions import Conditions, Conjunction
from hipslake.cube.joining import concatenated
from hipslake.cube.outcome import read_partition
from hipslake.cube.plan import PartitionRead, QueryPlan
from hipslake.cube.store.cube import Cube
from hipslake.cube.store.files import BYTES, PATH, ROWS, encoded, read_rows
from hipslake.engine.model import Engine
from hipslake.engine.this_process import ThisProcess
from hipslake.storage import Storage

_TASKS_PER_CORE = 4
_SCHEMA = pa.schema([(PATH, pa.string()), (ROWS, pa.int64()), (BYTES, pa.int64())])


@dataclass(frozen=True)
class AnswerTasks:
    """Tasks that read and join partitions, some each. They travel, so they are small.

    Attributes
    ----------
    storage : Storage
        At the cube's root.
    plan : QueryPlan
        Without files.
    tasks : tuple of tuple of PartitionRead
        In the order of the answer; a group is never in two.
    """

    storage: Storage
    plan: QueryPlan
    tasks: tuple[tuple[PartitionRead, ...], ...]

    @classmethod
    def of(cls, storage: Storage, plan: QueryPlan, cores: int) -> AnswerTasks:
        """Cut a plan into some tasks for each core."""
        reads = list(plan.reads())
        share = max(1, -(-len(reads) // (cores * _TASKS_PER_CORE)))
        found: list[list[PartitionRead]] = []
        for together in _together(plan, reads):
            if found and len(found[-1]) < share:
                found[-1] += together
            else:
                found.append(together)
        return cls(storage, plan.without_files(), tuple(map(tuple, found)))

    def tables(self, task: int) -> Iterator[pa.Table]:
        """The rows of a task: sorted within each partition of the cube, or within each group."""
        plan = self.plan

        def load(
            dataset: str, labels: Sequence[str], columns: Sequence[str], conditions: Conjunction
        ) -> pa.Table:
            return read_rows(self.storage, labels, plan.loaded_schema(dataset), conditions)

        for together in _together(plan, self.tasks[task]):
            yield concatenated(
                [read_partition(plan, read, load) for read in together],
                plan.intention.dimension_columns,
                plan.cube.partition_columns,
            )


def write_answer(
    cube: Cube,
    target: Storage,
    columns: Iterable[str] | None = None,
    conditions: Conditions = None,
    partition_by: str | Sequence[str] | None = None,
    dimension_columns: str | Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    *,
    engine: Engine | None = None,
) -> pa.Table:
    """Write the rows of a cube that meet some conditions as Parquet files.

    With `partition_by`, every group has a file of its own; without, every partition of the cube.

    Parameters
    ----------
    cube : Cube
    target : Storage
        At a folder, which is empty.
    columns, conditions, partition_by, dimension_columns, datasets
        As for `Cube.query`.
    engine : Engine, optional
        Where the tasks run; by default in this process.

    Returns
    -------
    pyarrow.Table
        `__path`, `__rows` and `__bytes` of each file, in the order of the answer, which is that of the paths.
        Groups and partitions without rows have none.
    """
    engine = engine or ThisProcess()
    plan = cube.plan(columns, conditions, partition_by, dimension_columns, datasets)
    work = AnswerTasks.of(cube.storage, plan, engine.cores)

    def write(task: int) -> Iterator[pa.RecordBatch]:
        for number, rows in enumerate(work.tables(task)):
            if rows.num_rows:
                path = f"{task:05d}-{number:05d}.parquet"
                data = encoded(rows)
                target.write(path, data)
                yield pa.record_batch([[path], [rows.num_rows], [data.size]], schema=_SCHEMA)

    if not work.tasks:
        return _SCHEMA.empty_table()
    with engine.progress("answer"):
        return engine.run(write, tasks=len(work.tasks), result=_SCHEMA).sort_by(PATH)


def _together(plan: QueryPlan, reads: Sequence[PartitionRead]) -> Iterator[list[PartitionRead]]:
    """The partitions whose rows are sorted together: those of a group, or each alone."""
    if not plan.intention.partition_by:
        yield from ([read] for read in reads)
        return
    for _, group in groupby(reads, key=lambda read: read.group):
        yield list(group)
