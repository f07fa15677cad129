"""The rows of a sink: of a catalog's version, or of files, in parts that tasks read alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.reading import parts, read_parts
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import Selection, joined_schema, select
from hipslake.engine.model import Engine
from hipslake.errors import EmptySourceError, VersionNotFoundError
from hipslake.planning.splits import assign_targets
from hipslake.sources import Source, Split, open_source
from hipslake.sphere.intervals import Intervals
from hipslake.tables.older_sinks import same_digest
from hipslake.tables.order import CatalogRows, FileRows
from hipslake.versions.log import VersionLog

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

    def read(self, task: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a part, always in the same order; at least some columns of them."""


def rows_of(order: CatalogRows | FileRows, engine: Engine, standing: pa.Schema | None = None) -> Rows:
    """Open the rows of an order.

    Parameters
    ----------
    order : CatalogRows or FileRows
    engine : Engine
        Finds the types of files that do not say theirs.
    standing : pyarrow.Schema, optional
        Of the table: the columns of the rows where there is no file that says them.
    """
    if isinstance(order, FileRows) and not order.files and standing is not None:
        return NoRows(standing)
    if isinstance(order, CatalogRows):
        return _RowsOfCatalog.of(order)
    try:
        return _RowsOfFiles.of(order, engine)
    except EmptySourceError:
        if standing is None:
            raise
        return NoRows(standing)  # of files that say no columns, such as CSV without a line


def content_of(metadata: CatalogMetadata) -> str:
    """What decides the rows of a version: two that differ only in how rows are filed have the same."""
    return hashlib.sha256("\n".join(metadata.increment_writes).encode()).hexdigest()


def standing_version(order: CatalogRows) -> CatalogRows:
    """The same rows, in a version that has them still: the one that is named, or else the newest.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        There is none.
    """
    log = VersionLog(CatalogReader.open(order.uri).storage)
    others = sorted(set(log.numbers()) - {order.version}, reverse=True)
    for version in (order.version, *others):
        with suppress(VersionNotFoundError):
            catalog = CatalogReader.open(order.uri, version)
            if _holds_rows(catalog, order):
                return order.model_copy(update={"version": version})
    raise VersionNotFoundError(
        f"{order.uri}: no version that is kept has the rows of version {order.version}"
        + (f", increment {order.increment}" if order.increment is not None else "")
    )


def _holds_rows(catalog: CatalogReader, order: CatalogRows) -> bool:
    if order.increment is None:
        return same_digest(order.content, content_of(catalog.metadata))
    increment = catalog.metadata.increment(order.increment, catalog.storage)
    return increment is not None and increment.write_id == order.content


@dataclass(frozen=True)
class NoRows:
    """The rows of an interval that is empty: none, with the columns that the table has."""

    schema: pa.Schema
    tasks: int = 0

    def read(self, task: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give nothing."""
        return iter(())


class _RowsOfFiles:
    def __init__(self, source: Source, schema: pa.Schema, tasks: tuple[tuple[Split, ...], ...]) -> None:
        self._source = source
        self._schema = schema
        self._tasks = tasks

    @classmethod
    def of(cls, order: FileRows, engine: Engine) -> _RowsOfFiles:
        source = open_source(order.source)
        splits = source.splits(order.files)
        schema = source.schema(order.files)
        if schema is None:
            schema = source.unify(_inferred(source, splits, engine))
        # Few splits of small files to a task: each costs tens of milliseconds.
        size = sum(file.size for file in order.files)
        most = max(_TASKS_PER_CORE * engine.cores, -(-len(splits) // 16))
        count = min(len(splits), most, max(1, -(-size // TASK_BYTES)))
        bounds = [len(splits) * task // count for task in range(count + 1)] if count else [0]
        tasks = tuple(tuple(splits[a:b]) for a, b in pairwise(bounds))
        return cls(source, schema, tasks)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def tasks(self) -> int:
        return len(self._tasks)

    def read(self, task: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for split in self._tasks[task]:
            yield from self._source.read(split, self._schema, list(columns) or self._schema.names[:1])


def _inferred(source: Source, splits: Sequence[Split], engine: Engine) -> list[tuple[str, pa.Schema]]:
    def infer(number: int) -> Iterator[pa.RecordBatch]:
        found = source.infer(splits[number]).serialize().to_pybytes()
        yield pa.record_batch([[number], [found]], schema=_INFERRED)

    found = engine.run(infer, tasks=len(splits), result=_INFERRED)
    by_split = dict(zip(found["split"].to_pylist(), found["schema"].to_pylist(), strict=True))
    return [
        (split.file.uri, pa.ipc.read_schema(pa.BufferReader(by_split[number])))
        for number, split in enumerate(splits)
    ]


_INFERRED = pa.schema([("split", pa.int64()), ("schema", pa.binary())])


class _RowsOfCatalog:
    """Rows of a version, along the curve."""

    def __init__(
        self,
        order: CatalogRows,
        schema: pa.Schema,
        stretches: tuple[tuple[int, int], ...],
        ordinal: int | None,
    ) -> None:
        self._order = order
        self._schema = schema
        self._stretches = stretches
        self._ordinal = ordinal

    @classmethod
    def of(cls, order: CatalogRows) -> _RowsOfCatalog:
        catalog = CatalogReader.open(order.uri, order.version)
        schema = joined_schema(catalog.metadata)
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
        elif ROW_COLUMN in schema.names and ROW_COLUMN not in (order.columns or ()):
            schema = schema.remove(schema.get_field_index(ROW_COLUMN))
        if order.columns is not None:
            select(catalog.metadata, order.columns, order.filters)  # tells what is wrong with them
        selection = select(catalog.metadata, None, order.filters)
        found = parts(catalog.storage, catalog.metadata, list(selection.columns), inside)
        numbers = assign_targets(np.array([part.bytes for part in found], np.int64), TASK_BYTES)
        first = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        last = [*[at - 1 for at in first[1:]], len(found) - 1] if found else []
        stretches = tuple((found[a].start, found[b].stop) for a, b in zip(first, last, strict=True))
        if ordinal is not None and ROW_COLUMN in schema.names and ROW_COLUMN not in (order.columns or ()):
            schema = schema.remove(schema.get_field_index(ROW_COLUMN))
        return cls(order, schema, stretches, ordinal)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def tasks(self) -> int:
        return len(self._stretches)

    def read(self, task: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        catalog = CatalogReader.open(self._order.uri, self._order.version)
        wanted = list(columns) or [self._schema.names[0]]
        if self._ordinal is not None and ROW_COLUMN not in wanted:
            wanted.append(ROW_COLUMN)
        selection: Selection = select(catalog.metadata, wanted, self._order.filters)
        start, stop = self._stretches[task]
        for table in read_parts(
            catalog.storage, catalog.metadata, selection, Intervals.union([start], [stop])
        ):
            if self._ordinal is not None:
                ordinals = pc.shift_right(table[ROW_COLUMN], ORDINAL_SHIFT)
                table = table.filter(pc.equal(ordinals, self._ordinal))
            yield from table.to_batches()
