"""Rows of splits in a store: while a task works on a batch, a thread reads the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import chain

import pyarrow as pa

from hipslake.sources.file_listing import located
from hipslake.sources.source_file import Split
from hipslake.sources.source_reader import Source

Read = tuple[Split, pa.RecordBatch]


def read_splits(
    source: Source, splits: Iterator[Split], schema: pa.Schema, columns: Sequence[str] | None = None
) -> Iterator[Read]:
    """Yield the batches of splits, each with its split, in order.

    Of files of this machine a batch is read when it is asked for. Of a store, one is read ahead, from the
    next split where one ends: its answers come while the task computes. So one batch more is in memory.

    Parameters
    ----------
    source : Source
    splits : iterator of Split
    schema, columns
        As for `Source.read`, whose errors are raised where the batch would come.
    """
    first = next(splits, None)
    if first is None:
        return
    given = chain([first], splits)
    batches = ((split, batch) for split in given for batch in source.read(split, schema, columns))
    if located(first.file)[0].is_local:
        yield from batches
    else:
        yield from _one_ahead(batches)


def _one_ahead(batches: Iterator[Read]) -> Iterator[Read]:
    """The same batches; the next one is read by a thread, in the context of the caller."""
    context = copy_context()

    def following() -> Read | None:
        return context.run(lambda: next(batches, None))

    with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
        coming = pool.submit(following)
        while (batch := coming.result()) is not None:
            coming = pool.submit(following)
            yield batch
