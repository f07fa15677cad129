"""The exchange: every row to the reduce task chosen for it, through Spark's shuffle, in Arrow blocks.

A map task yields tables with the number of the reduce task that shall have them. They travel as Arrow IPC
streams of at most 32 MB, one binary value each (or a reference to it: see `hipslake.spark.transport`), routed
by `repartitionById`: the reduce task is chosen, not hashed. A reduce task gets all blocks for its number, in
the order of their origin, whatever order they arrived in; so what it does with them depends on the input
alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from hipslake import errors
from hipslake.spark.transport import ThroughShuffle, Transport

MAX_BLOCK_BYTES = 32 << 20
THROUGH_SHUFFLE = ThroughShuffle()

_BLOCK_COLUMNS = "target int, source bigint, payload binary"
_BLOCK_SCHEMA = pa.schema([("target", pa.int32()), ("source", pa.int64()), ("payload", pa.binary())])
_OURS = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): ", re.MULTILINE)
_SOURCE_SHIFT = 32  # a block's origin: number of the map task << 32 | number of the block in it

Routed = tuple[int, pa.RecordBatch]
Mapper = Callable[[int], Iterable[Routed]]
Reducer = Callable[[int, "list[Block]"], Iterable[pa.RecordBatch]]


class Block(NamedTuple):
    """Rows that one map task sent to one reduce task."""

    source: int  # blocks sorted by it are in source order
    rows: pa.RecordBatch


def exchange(
    spark: SparkSession,
    *,
    sources: int,
    mapper: Mapper,
    targets: int,
    reducer: Reducer,
    result: str,
    block_bytes: int = MAX_BLOCK_BYTES,
    transport: Transport = THROUGH_SHUFFLE,
) -> DataFrame:
    """Route rows from map tasks to reduce tasks.

    Both functions must give the same for the same number, since Spark may run a task more than once.

    Parameters
    ----------
    spark : SparkSession
    sources : int
        Number of map tasks.
    mapper : callable
        Takes the number of a map task; yields (target, record batch).
    targets : int
        Number of reduce tasks; each has one target.
    reducer : callable
        Takes a target and its blocks in source order; yields batches of the result. It is not called for
        targets that got no block. It may empty the list to free memory.
    result : str
        Spark schema of the result, as DDL.
    block_bytes : int
        Largest block in bytes; a batch above it is cut by rows, and a single row above it travels alone.
    transport : Transport
        How blocks travel.
    """
    numbers = spark.range(0, sources, 1, sources)
    map_task = _map_task(mapper, min(block_bytes, MAX_BLOCK_BYTES), transport)
    blocks = numbers.mapInArrow(map_task, _BLOCK_COLUMNS)
    return blocks.repartitionById(targets, "target").mapInArrow(_reduce_task(reducer, transport), result)


def run_tasks(
    spark: SparkSession, *, sources: int, task: Callable[[int], Iterable[pa.RecordBatch]], result: str
) -> DataFrame:
    """Run a function for every number in [0, sources), one task each, without an exchange."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _one_core()
        for batch in batches:
            for number in batch.column(0).to_numpy():
                yield from task(int(number))

    return spark.range(0, sources, 1, sources).mapInArrow(run, result)


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
        _one_core()
        for batch in batches:
            for number in batch.column(0).to_numpy():
                origin, pack = int(number) << _SOURCE_SHIFT, transport.packing(int(number))
                for target, rows in mapper(int(number)):
                    for part in cut(rows, block_bytes):
                        yield _addressed(target, origin, pack(target, part))
                        origin += 1

    return run


def _reduce_task(
    reducer: Reducer, transport: Transport
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _one_core()
        by_target: dict[int, list[Block]] = {}
        for batch in batches:
            targets, sources = batch.column(0).to_numpy(), batch.column(1).to_numpy()
            for at, (target, source) in enumerate(zip(targets.tolist(), sources.tolist(), strict=True)):
                by_target.setdefault(target, []).append(
                    Block(source, transport.unpack(batch.column(2)[at].as_buffer()))
                )
        for target in sorted(by_target):
            blocks = by_target.pop(target)
            blocks.sort(key=lambda block: block.source)
            yield from reducer(target, blocks)
            transport.arrived(target)

    return run


def cut(rows: pa.RecordBatch, block_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices of at most `block_bytes`, but at least one row each; none if it is empty."""
    if rows.num_rows == 0:
        return
    rows = _own_dictionaries(rows)
    size = rows.nbytes
    if size <= block_bytes or rows.num_rows == 1:
        yield rows
        return
    half = rows.num_rows // 2
    step = max(1, int(rows.num_rows * block_bytes / size)) if _fixed_width(rows.schema) else half
    for start in range(0, rows.num_rows, step):
        part = rows.slice(start, step)
        if part.nbytes <= block_bytes:
            yield part
        else:
            yield from cut(part, block_bytes)


def _own_dictionaries(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out the words of dictionaries that no row uses: a slice still holds those of the whole file."""
    for at, column in enumerate(rows.columns):
        if pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
            words = column.indices.drop_null().unique()
            indices = pa.compute.index_in(column.indices, words).cast(column.type.index_type)
            own = pa.DictionaryArray.from_arrays(
                indices, column.dictionary.take(words), ordered=column.type.ordered
            )
            rows = rows.set_column(at, rows.schema.field(at), own)
    return rows


def _fixed_width(schema: pa.Schema) -> bool:
    return all(pa.types.is_primitive(field.type) for field in schema)


def _addressed(target: int, source: int, payload: pa.Buffer) -> pa.RecordBatch:
    # A binary array around the payload's own buffer: no copy of it on the way to the JVM.
    offsets = pa.py_buffer(np.array([0, payload.size], np.int32))
    binary = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, payload])
    return pa.record_batch(
        [pa.array([target], pa.int32()), pa.array([source], pa.int64()), binary], schema=_BLOCK_SCHEMA
    )


def _one_core() -> None:
    # Spark counts a task as one core; pyarrow's own pools would fight over the others.
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)
