"""The rows of a source of a table: of a catalog's version, or of files, in parts that tasks read alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from hipslake.engine.model import Engine
from hipslake.errors import EmptySourceError
from hipslake.sources import Source, open_source
from hipslake.sources.prefetching import first_prefetched, prefetched
from hipslake.sources.source_reader import BATCH_ROWS, SPLIT_BYTES
from hipslake.steps.ingest.split_list import SplitList
from hipslake.tables.sink_order import BatchRows, FileRows, VersionRows

TASK_BYTES = 64 << 20
_TASKS_PER_CORE = 5


class Rows(Protocol):
    """Rows that tasks read. It travels with them, so it is small."""

    @property
    def schema(self) -> pa.Schema:
        """All columns."""

    @property
    def tasks(self) -> int:
        """In how many parts they are read."""

    def read(
        self, task: int, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a part, always in the same order; at least some columns of them.

        Parameters
        ----------
        task : int
        columns : sequence of str
        batch_rows : int
            Most rows of a batch, where the source leaves a choice.
        """


def rows_of(
    order: VersionRows | FileRows | BatchRows,
    engine: Engine,
    standing: pa.Schema | None = None,
    *,
    shuffled: bool = False,
) -> Rows:
    """Open the rows of an order.

    Parameters
    ----------
    order : VersionRows, FileRows or BatchRows
    engine : Engine
        Finds the types of files that do not say theirs.
    standing : pyarrow.Schema, optional
        Of the table: the columns of the rows where there is no file that says them.
    shuffled : bool, optional
        Whether rows meet in files from whatever part they come, so that a file may have several parts.
    """
    if isinstance(order, BatchRows):
        order = order.given
    if isinstance(order, FileRows) and not order.files and standing is not None:
        return NoRows(standing)
    if isinstance(order, VersionRows):
        from hipslake.steps.sink.catalog_rows import RowsOfCatalog  # files need nothing of catalogs

        return RowsOfCatalog.of(order, TASK_BYTES)
    try:
        return _RowsOfFiles.of(order, engine, shuffled=shuffled)
    except EmptySourceError:
        if standing is None:
            raise
        return NoRows(standing)  # of files that say no columns, such as CSV without a line


def by_split(rows: Rows) -> Rows:
    """The same rows in the same order, in as many parts as the source can be read in.

    For threads that take turns on them: a part costs them nothing, and they wait for each other at its end.
    """
    if not isinstance(rows, _RowsOfFiles):
        return rows
    runs = tuple((at, at + 1) for at in range(len(rows.splits)))
    return replace(rows, tasks=len(runs), runs=runs)


@dataclass(frozen=True)
class NoRows:
    """The rows of an interval that is empty: none, with the columns that the table has."""

    schema: pa.Schema
    tasks: int = 0

    def read(
        self, task: int, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Give nothing."""
        return iter(())


@dataclass(frozen=True)
class _RowsOfFiles:
    schema: pa.Schema
    tasks: int
    source: Source
    splits: SplitList
    runs: tuple[tuple[int, int], ...]  # per task, the splits that it reads

    @classmethod
    def of(cls, order: FileRows, engine: Engine, *, shuffled: bool) -> _RowsOfFiles:
        source = open_source(order.source)
        splits = SplitList.of(source.splits(order.files, TASK_BYTES))
        schema = source.schema(order.files)
        if schema is None:
            schema = source.unify(_inferred(source, splits, engine))
        # Few splits of small files to a task: each costs tens of milliseconds.
        size = sum(file.size for file in order.files)
        most = max(_TASKS_PER_CORE * engine.cores, -(-len(splits) // 16))
        apart = len(splits) if shuffled else _joined_splits(splits)
        count = min(apart, most, max(1, -(-size // TASK_BYTES)))
        bounds = [len(splits) * task // count for task in range(count + 1)] if count else [0]
        runs = tuple(pairwise(bounds))
        return cls(schema, len(runs), source, splits, runs)

    def read(
        self, task: int, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        for split in self.splits.between(*self.runs[task]):
            wanted = list(columns) or self.schema.names[:1]
            if batch_rows == BATCH_ROWS:
                early = prefetched(split, self.schema, wanted)
                yield from early or self.source.read(split, self.schema, wanted)
                continue
            given = 0  # who asks for small batches seldom wants a second one
            if (first := first_prefetched(split, self.schema, wanted)) is not None:
                given = min(first.num_rows, batch_rows)
                yield first.slice(0, batch_rows)
            yield from _after(given, self.source.read(split, self.schema, wanted, batch_rows=batch_rows))


def _after(rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What follows the first rows of some batches."""
    for batch in batches:
        yield batch.slice(rows)
        rows = max(rows - batch.num_rows, 0)


def _joined_splits(splits: SplitList) -> int:
    """How many splits there are where each is as large as one that a task of an ingest reads."""
    _, of_file = np.unique(splits.file_ordinals, return_counts=True)
    return int((-(-of_file // max(1, SPLIT_BYTES // TASK_BYTES))).sum())


def _inferred(source: Source, splits: SplitList, engine: Engine) -> list[tuple[str, pa.Schema]]:
    runs = splits.runs(engine.cores)

    def infer(task: int) -> Iterator[pa.RecordBatch]:
        for split in splits.between(*runs[task]):
            found = source.infer(split).serialize().to_pybytes()
            yield pa.record_batch([[split.ordinal], [found]], schema=_INFERRED)

    found = engine.run(infer, tasks=len(runs), result=_INFERRED).sort_by("split")
    schemas = (pa.ipc.read_schema(pa.BufferReader(each)) for each in found["schema"].to_pylist())
    return list(zip(splits.table["uri"].to_pylist(), schemas, strict=True))


_INFERRED = pa.schema([("split", pa.int64()), ("schema", pa.binary())])
