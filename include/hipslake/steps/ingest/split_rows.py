"""The rows of a split, in chunks of bounded size, with their place on the sky."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from hipslake.catalog.placement import Placed, Placer
from hipslake.sources import Source, Split

CHUNK_BYTES = 16 << 20  # a chunk that is gathered from small batches has about this size
_TASKS_PER_CORE = 5
_MOST_SPLITS = 16  # in a task, unless there are more tasks than cores anyway


def runs_of_splits(splits: int, cores: int) -> tuple[tuple[int, int], ...]:
    """Divide splits among tasks: per task the range that it reads, [first, last).

    Some tasks per core, so that all end together and a retry is small; few, since each costs tens of
    milliseconds, and many small files are many splits.
    """
    tasks = min(splits, max(_TASKS_PER_CORE * cores, splits // _MOST_SPLITS))
    bounds = [splits * task // tasks for task in range(tasks + 1)] if tasks else []
    return tuple(pairwise(bounds))


class Chunk(NamedTuple):
    """Consecutive rows of a split."""

    first: int  # number of the first row in the split
    rows: pa.RecordBatch
    placed: Placed


def chunks(
    source: Source,
    split: Split,
    schema: pa.Schema,
    placer: Placer,
    columns: list[str] | None = None,
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Chunk]:
    """Read a split in chunks, so that a split of any size needs the same memory.

    Parameters
    ----------
    columns : list of str, optional
        What is read; those that the placer needs must be among them. None: everything.
    chunk_bytes : int
        Batches below this size are gathered up to it; larger ones are chunks of their own, uncopied.
    """
    first = 0
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in source.read(split, schema, columns):
        if held and size + batch.nbytes > chunk_bytes:
            chunk = _chunk(first, held, placer)
            yield chunk
            first += chunk.rows.num_rows
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield _chunk(first, held, placer)


def _chunk(first: int, batches: list[pa.RecordBatch], placer: Placer) -> Chunk:
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return Chunk(first, rows, placer.place(rows))
