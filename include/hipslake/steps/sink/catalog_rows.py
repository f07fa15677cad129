"""The rows of a version of a catalog as the source of a table, in parts that tasks read alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.catalog.reading import parts, read_parts
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import Selection, joined_schema, select
from hipslake.errors import ConflictError, VersionNotFoundError
from hipslake.planning.splits import assign_targets
from hipslake.sources.source_reader import BATCH_ROWS
from hipslake.sphere.intervals import Intervals
from hipslake.steps.row_routing import runs_of
from hipslake.tables.marks import same_digest
from hipslake.tables.sink_order import VersionRows


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


def schema_of_catalog(metadata: CatalogMetadata, columns: Sequence[str] | None) -> pa.Schema:
    """The columns that the rows of a catalog have for a sink: all, but `_row` only where it is asked for."""
    schema = joined_schema(metadata)
    if ROW_COLUMN in schema.names and ROW_COLUMN not in (columns or ()):
        schema = schema.remove(schema.get_field_index(ROW_COLUMN))
    return schema


@dataclass(frozen=True)
class RowsOfCatalog:
    """Rows of a version, along the curve."""

    schema: pa.Schema
    tasks: int
    rows: VersionRows
    stretches: tuple[tuple[int, int], ...]
    ordinal: int | None

    @classmethod
    def of(cls, order: VersionRows, task_bytes: int) -> RowsOfCatalog:
        """Open the rows of an order, in parts of about so many bytes of leaf files."""
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
        numbers = assign_targets(np.array([part.bytes for part in found], np.int64), task_bytes)
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
