"""The rows of a source of a table: of a catalog's version, or of files, in parts that tasks read alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.catalog.reading import parts, read_parts
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import Selection, joined_schema, select
from hipslake.engine.model import Engine
from hipslake.errors import ConflictError, EmptySourceError, VersionNotFoundError
from hipslake.planning.splits import assign_targets
from hipslake.sources import Source, open_source
from hipslake.sources.source_reader import BATCH_ROWS, SPLIT_BYTES
from hipslake.sphere.intervals import Intervals
from hipslake.steps.ingest.split_list import SplitList
from hipslake.steps.row_routing import runs_of
from hipslake.tables.marks import same_digest
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
        return _RowsOfCatalog.of(order)
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


def content_of(metadata: CatalogMetadata) -> str:
    """What decides the rows of a version: two that differ only in how rows are filed have the same."""
    return hashlib.sha256("\n".join(metadata.increment_writes).encode()).hexdigest()


def content_of_increment(metadata: CatalogMetadata, increment: Increment) -> str:
    """What decides the rows of an increment: its write, and the deletions that took some of them out."""
    gone = [each.write_id for each in metadata.deletions or () if increment.ordinal in (each.rows_of or {})]
    if not gone:
        return increment.write_id
    return hashlib.sha256("\n".join([increment.write_id, *gone]).encode()).hexdigest()


def standing_version(order: VersionRows) -> VersionRows:
    """The same rows, in a version that has them still: the one that is named, or else the newest.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        There is none.
    """
    others = sorted(set(CatalogReader.open(order.uri).versions()) - {order.version}, reverse=True)
    for version in (order.version, *others):
        with suppress(VersionNotFoundError):
            catalog = CatalogReader.open(order.uri, version)
            if _holds_rows(catalog, order):
                return order.model_copy(update={"version": version})
    raise VersionNotFoundError(
        f"{order.uri}: no version that is kept has the rows of version {order.version}"
        + (f", increment {order.increment}" if order.increment is not None else "")
    )


def _holds_rows(catalog: CatalogReader, order: VersionRows) -> bool:
    if order.increment is None:
        return same_digest(order.content, content_of(catalog.metadata))
    increment = catalog.metadata.increment(order.increment, catalog.storage)
    if increment is None:
        return False
    return same_digest(order.content, content_of_increment(catalog.metadata, increment))


def _opened(order: VersionRows) -> CatalogReader:
    """Open the version of an order; `ConflictError` if it is a catalog of others and no longer that one."""
    catalog = CatalogReader.open(order.uri, order.version)
    if catalog.metadata.is_foreign and not same_digest(order.content, content_of(catalog.metadata)):
        raise ConflictError(
            f"{order.uri}: this catalog of others is not what it was when the run began, as it was written "
            "anew since; clear the run from its first task"
        )
    return catalog


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
            yield from self.source.read(split, self.schema, wanted, batch_rows=batch_rows)


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


def schema_of_catalog(metadata: CatalogMetadata, columns: Sequence[str] | None) -> pa.Schema:
    """The columns that the rows of a catalog have for a sink: all, but `_row` only where it is asked for."""
    schema = joined_schema(metadata)
    if ROW_COLUMN in schema.names and ROW_COLUMN not in (columns or ()):
        schema = schema.remove(schema.get_field_index(ROW_COLUMN))
    return schema


@dataclass(frozen=True)
class _RowsOfCatalog:
    """Rows of a version, along the curve."""

    schema: pa.Schema
    tasks: int
    rows: VersionRows
    stretches: tuple[tuple[int, int], ...]
    ordinal: int | None

    @classmethod
    def of(cls, order: VersionRows) -> _RowsOfCatalog:
        catalog = _opened(order)
        ordinal, inside = None, None
        if order.increment is not None:
            increment = catalog.metadata.increment(order.increment, catalog.storage)
            if increment is None:
                raise VersionNotFoundError(
                    f"{order.uri}: version {order.version} has no increment {order.increment}; it has "
                    f"{', '.join(str(i.key) for i in catalog.increments) or 'none'}"
                )
            ordinal = increment.ordinal
            table = increment.cells(catalog.storage)
            inside = Intervals.of(zip(table["order"].to_pylist(), table["npix"].to_pylist(), strict=True))
        if order.columns is not None:
            select(catalog.metadata, order.columns, order.filters)  # tells what is wrong with them
        selection = select(catalog.metadata, None, order.filters)
        found = parts(catalog.storage, catalog.metadata, list(selection.columns), inside)
        numbers = assign_targets(np.array([part.bytes for part in found], np.int64), TASK_BYTES)
        stretches = tuple((found[a].start, found[b - 1].stop) for a, b in runs_of(numbers))
        schema = schema_of_catalog(catalog.metadata, order.columns)
        return cls(schema, len(stretches), order, stretches, ordinal)

    def read(
        self, task: int, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        catalog = _opened(self.rows)
        wanted = list(columns) or [self.schema.names[0]]
        if self.ordinal is not None and ROW_COLUMN not in wanted:
            wanted.append(ROW_COLUMN)
        selection: Selection = select(catalog.metadata, wanted, self.rows.filters)
        start, stop = self.stretches[task]
        for table in read_parts(
            catalog.storage, catalog.metadata, selection, Intervals.union([start], [stop])
        ):
            if self.ordinal is not None:
                ordinals = pc.shift_right(table[ROW_COLUMN], ORDINAL_SHIFT)
                table = table.filter(pc.equal(ordinals, self.ordinal))
            yield from table.to_batches()
