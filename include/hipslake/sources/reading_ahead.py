"""Rows of splits in a store: while a task works on a batch, threads read the next one, and the next split."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from hipslake.sources.source_file import Split
from hipslake.sources.source_reader import Source

Read = tuple[Split, pa.RecordBatch]
Batches = Generator[pa.RecordBatch, None, None]


def read_splits(
    source: Source, splits: Iterator[Split], schema: pa.Schema, columns: Sequence[str] | None = None
) -> Iterator[Read]:
    """Yield the batches of splits, each with its split, in order.

    Of files of this machine a batch is read when it is asked for. Of a store, one is read ahead; and once the
    first batch of a split is there, the next split is opened and its first batch read. Their answers come
    while the task computes. So two batches more are in memory, and what is fetched of one split more.

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
    if first.file.is_local:
        for split in given:
            for batch in source.read(split, schema, columns):
                yield split, batch
        return

    def read(split: Split) -> Batches:
        yield from source.read(split, schema, columns)

    with closing(_Ahead(read)) as ahead:
        yield from ahead.batches(given)


class _Ahead:
    """Reads splits with two threads: of one the next batch, of the one after it the first."""

    def __init__(self, read: Callable[[Split], Batches]) -> None:
        self._read = read
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="batches")
        self._open: list[Batches] = []

    def batches(self, splits: Iterator[Split]) -> Iterator[Read]:
        """The batches of the splits, in order."""
        coming = self._begin(splits)
        while coming is not None:
            split, rows, awaited = coming
            batch = awaited.result()
            coming = self._begin(splits)  # not before: one that is begun would only take turns with this one
            while batch is not None:
                awaited = self._next(rows)
                yield split, batch
                batch = awaited.result()
            self._open.remove(rows)

    def close(self) -> None:
        """Wait for what is being read, and close the files."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for rows in self._open:
            rows.close()

    def _begin(self, splits: Iterator[Split]) -> _Begun | None:
        split = next(splits, None)
        if split is None:
            return None
        rows = self._read(split)
        self._open.append(rows)
        return _Begun(split, rows, self._next(rows))

    def _next(self, rows: Batches) -> Future[pa.RecordBatch | None]:
        """Read a batch in a thread, in the context of the caller, which has the credentials of stores."""
        return self._pool.submit(copy_context().run, lambda: next(rows, None))


class _Begun(NamedTuple):
    """A split that is open, and its first batch."""

    split: Split
    rows: Batches
    first: Future[pa.RecordBatch | None]
