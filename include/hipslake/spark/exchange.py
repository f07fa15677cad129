"""The exchange: every row to the reduce task chosen for it, through Spark's shuffle, in Arrow blocks.

A map task yields tables with the number of the reduce task that shall have them. They travel as Arrow IPC
streams of at most 32 MB, one binary value each (or a reference to it: see `hipslake.spark.transport`), routed
by `repartitionById`: the reduce task is chosen, not hashed. A reduce task gets all blocks for its number, in
the order of their origin, whatever order they arrived in; so what it does with them depends on the input
alone.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark import Accumulator, TaskContext
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hipslake import errors
from hipslake.engine.model import MAX_BLOCK_BYTES, Block, Mapper, Reducer, Task, sent
from hipslake.spark.transport import ThroughShuffle, Transport

THROUGH_SHUFFLE = ThroughShuffle()

_BLOCK_COLUMNS = "target int, source bigint, payload binary"
_BLOCK_SCHEMA = pa.schema([("target", pa.int32()), ("source", pa.int64()), ("payload", pa.binary())])
_MOST_HELD, _MOST_HELD_BYTES = 256, 64 << 10  # payloads that go to Spark together
_OURS = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): ", re.MULTILINE)


def exchange(
    spark: SparkSession,
    *,
    sources: int,
    mapper: Mapper,
    targets: int,
    reducer: Reducer,
    result: StructType | str,
    block_bytes: int = MAX_BLOCK_BYTES,
    transport: Transport = THROUGH_SHUFFLE,
) -> DataFrame:
    """Route rows from map tasks to reduce tasks, as `hipslake.engine.model.Engine.exchange` says.

    Parameters
    ----------
    spark : SparkSession
    sources, mapper, targets, reducer, block_bytes
        As there.
    result : StructType or str
        Spark schema of the result.
    transport : Transport
        How blocks travel.
    """
    numbers = spark.range(0, sources, 1, sources)
    blocks = numbers.mapInArrow(_map_task(mapper, block_bytes, transport), _BLOCK_COLUMNS)
    return blocks.repartitionById(targets, "target").mapInArrow(_reduce_task(reducer, transport), result)


def run_tasks(spark: SparkSession, *, sources: int, task: Task, result: StructType | str) -> DataFrame:
    """Run a function for every number in [0, sources), one task each, without an exchange."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _task_numbers(batches):
            yield from task(number)

    return spark.range(0, sources, 1, sources).mapInArrow(run, result)


def telling(task: Task, finished: Accumulator[list[int]]) -> Task:
    """The same task, which adds its number when it has done its work."""

    def run(number: int) -> Iterator[pa.RecordBatch]:
        yield from task(number)
        finished.add([number])

    return run


def collected(frame: DataFrame) -> pa.Table:
    """Run the tasks and return what they gave.

    Raises
    ------
    HipslakeError
        What a task raised, as the class that it was there: Spark itself knows only the text of its traceback,
        and whoever reads the report must know whether to try again.
    """
    try:
        return frame.toArrow()
    except PythonException as error:
        raised = list(_OURS.finditer(str(error)))  # the last one came out; those above are its causes
        kind = getattr(errors, raised[-1].group(1), None) if raised else None
        if kind is None:
            raise
        raise kind(str(error)[raised[-1].end() :].strip()) from error


def _map_task(
    mapper: Mapper, block_bytes: int, transport: Transport
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _task_numbers(batches):
            with transport.packing(number) as pack:
                yield from _together(
                    (target, block.source, pack(target, block.rows))
                    for target, block in sent(mapper, number, block_bytes)
                )

    return run


def _reduce_task(
    reducer: Reducer, transport: Transport
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _enter_task()
        by_target: dict[int, list[tuple[int, pa.Buffer]]] = {}
        for batch in batches:
            targets, sources = batch.column(0).to_numpy(), batch.column(1).to_numpy()
            for at, (target, source) in enumerate(zip(targets.tolist(), sources.tolist(), strict=True)):
                by_target.setdefault(target, []).append((source, batch.column(2)[at].as_buffer()))
        context = TaskContext.get()
        if context is not None and not by_target:
            transport.arrived(context.partitionId())  # nothing was sent to it
        for target in sorted(by_target):
            came = by_target.pop(target)
            came.sort(key=lambda each: each[0])
            rows = transport.unpacked([payload for _, payload in came])
            blocks = [Block(source, block) for (source, _), block in zip(came, rows, strict=True)]
            del came, rows  # the reducer may free blocks as it goes
            yield from reducer(target, blocks)
            transport.arrived(target)

    return run


def _task_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of the tasks that Spark has given this one to do."""
    _enter_task()
    for batch in batches:
        yield from batch.column(0).to_numpy().tolist()


def _together(blocks: Iterator[tuple[int, int, pa.Buffer]]) -> Iterator[pa.RecordBatch]:
    """Targets, sources and payloads in batches, as few as can be: each costs Spark something by itself."""
    held: list[tuple[int, int, pa.Buffer]] = []
    size = 0
    for each in blocks:
        held.append(each)
        size += each[2].size
        if size > _MOST_HELD_BYTES or len(held) == _MOST_HELD:
            yield _addressed(held)
            held, size = [], 0
    if held:
        yield _addressed(held)


def _addressed(blocks: Sequence[tuple[int, int, pa.Buffer]]) -> pa.RecordBatch:
    targets, sources, payloads = zip(*blocks, strict=True)
    # A binary array around the payload's own buffer, where it is one: no copy of it on the way to the JVM.
    content = payloads[0] if len(payloads) == 1 else pa.py_buffer(b"".join(payloads))
    offsets = np.cumsum([0, *(each.size for each in payloads)]).astype(np.int32)
    binary = pa.Array.from_buffers(pa.binary(), len(payloads), [None, pa.py_buffer(offsets), content])
    return pa.record_batch(
        [pa.array(targets, pa.int32()), pa.array(sources, pa.int64()), binary], schema=_BLOCK_SCHEMA
    )


def _enter_task() -> None:
    # Spark collects garbage after each task. What was there before this one, all modules above all, need not
    # be looked through again: that took a sixth of the time of short tasks.
    gc.freeze()
    # Spark counts a task as one core; pyarrow's own pools would fight over the others.
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)
