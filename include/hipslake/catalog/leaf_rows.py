"""Reading one leaf file: its rows in a stretch of the curve, those that meet a condition, or some columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import pyarrow as pa

from hipslake.catalog.foreign_rows import current_files, foreign_batches, foreign_rows, row_group_ranges
from hipslake.catalog.leaf_form import LeafForm, form_of
from hipslake.catalog.leaf_opening import leaf_file, range_of, read_errors
from hipslake.catalog.leaf_reads import LeafRead, Wanted, row_groups_in
from hipslake.catalog.merging import within
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.engine.reordering import in_sort_order
from hipslake.predicates.predicate_tree import Predicate
from hipslake.sources.conforming import conform
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import WHOLE_SKY, Pixel
from hipslake.storage.column_chunks import ColumnChunks, column_places
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_tail import parquet_tail

_BATCH_ROWS = 1 << 20
ALONG = [(name, "ascending") for name in ROW_IDENTITY]
"""The order of the rows of a catalog."""


def read_leaf(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    columns: list[str],
    predicate: Predicate | None,
    inside: Intervals | None,
    *,
    wanted: Wanted | None = None,
    size: int | None = None,
) -> pa.Table:
    """The rows of one file that meet a condition, in the order of the file.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    path : str
    schema : pyarrow.Schema
        Of the column group; columns that came after the file was written are null.
    columns : list of str
        What is given of it.
    predicate : Predicate or None
        On any columns of the group. Row groups that cannot meet it, by their statistics, are not fetched.
    inside : Intervals or None
        Only rows in these, and only row groups that have any; of several, `columns` name `_healpix_29`.
    wanted : callable, optional
        Of the row groups inside, those that are read.
    size : int, optional
        Of the file, in bytes, where it is known: a store need not be asked then.

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    if form_of(schema) is not None:
        return foreign_rows(storage, path, schema, columns, predicate, inside)
    return LeafRead(storage, path, schema, columns, predicate, inside, wanted, size=size).table()


def leaf_files(storage: Storage, path: str, schema: pa.Schema) -> list[str]:
    """The files of a leaf, which has several where others wrote it as a folder; `schema` is its group's."""
    form = form_of(schema)
    return [path] if form is None else current_files(storage, path, form)


def leaf_batches(
    storage: Storage,
    path: str,
    size: int,
    schema: pa.Schema,
    interval: tuple[int, int],
    *,
    wanted: Wanted | None = None,
) -> list[pa.RecordBatch]:
    """The rows of a leaf file in a stretch of the curve, in the order of the file.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    path : str
    size : int
        Of the file, in bytes.
    schema : pyarrow.Schema
        What the rows are given as, `_healpix_29` among it; columns that came after the file was written are
        null, and columns that it does not name are not read.
    interval : (int, int)
        Order-29 pixels, [start, stop). Row groups outside are not read.
    wanted : callable, optional
        Of the row groups inside, those that are read.

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    start, stop = interval
    if (form := form_of(schema)) is not None:
        whole = interval == WHOLE_SKY or form.healpix == "none"
        return foreign_batches(storage, path, schema, None if whole else Intervals.union([start], [stop]))
    with leaf_file(storage, path, size, whole=wanted is None) as file:
        inside = row_groups_in(file.metadata, Intervals.union([start], [stop]), wanted)
        held = set(file.schema_arrow.names)
        columns = [name for name in schema.names if name in held]
        table = file.read_row_groups(inside, columns, use_threads=False)  # a task is one core
    batches = (within(batch, start, stop) for batch in table.to_batches())
    return [conform(batch, schema, storage.uri(path)) for batch in batches if batch.num_rows]


class RowGroupSize(NamedTuple):
    """Where a row group of a leaf file begins on the curve, and what reading some columns of it takes."""

    start: int  # the order-29 pixel of its first row
    rows: int
    bytes: int  # uncompressed


def row_group_sizes(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    columns: Collection[str],
    inside: Intervals,
    stored: int | None = None,
) -> list[RowGroupSize]:
    """The row groups of a leaf that may hold rows of some intervals, by its footers alone.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    path : str
    schema : pyarrow.Schema
        Of the column group.
    columns : collection of str
        Those that are to be read.
    inside : Intervals
    stored : int, optional
        Bytes of the file, where they are known: a store need not be asked then.

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    if (form := form_of(schema)) is not None:
        return _foreign_sizes(storage, path, form, columns, inside)
    found = []
    with leaf_file(storage, path, stored) as file:
        footer = file.metadata
        chunks, wanted = ColumnChunks(footer), column_places(footer, columns)
        for number in row_groups_in(footer, inside):
            size = sum(chunks(number, at).total_uncompressed_size for at in wanted)
            found.append(RowGroupSize(range_of(chunks, number)[0], footer.row_group(number).num_rows, size))
    return found


def _foreign_sizes(
    storage: Storage, path: str, form: LeafForm, columns: Collection[str], inside: Intervals
) -> list[RowGroupSize]:
    """As `row_group_sizes`, of a leaf of others; row groups of unknown places begin with the leaf."""
    found = []
    first = int(inside.start[0]) if len(inside) else 0
    for file in current_files(storage, path, form):
        with read_errors(storage, file):
            footer = parquet_tail(storage, file).footer
            chunks, wanted = ColumnChunks(footer), column_places(footer, [*columns, form.ra, form.dec])
            for number, span in enumerate(row_group_ranges(footer, form)):
                if span is None or len(inside.within(*span)):
                    size = sum(chunks(number, at).total_uncompressed_size for at in wanted)
                    start = first if span is None else span[0]
                    found.append(RowGroupSize(start, footer.row_group(number).num_rows, size))
    return found


def column_batches(
    storage: Storage, path: str, schema: pa.Schema, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Some columns of a leaf, batch by batch, in the order of `read_leaf`; `schema` is that of the group.

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    if form_of(schema) is not None:
        yield from foreign_rows(storage, path, schema, columns).to_batches()
        return
    with leaf_file(storage, path) as file:
        yield from file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False)


def sorted_rows(storage: Storage, files: pa.Table, schema: pa.Schema, pixel: Pixel) -> list[pa.RecordBatch]:
    """The rows of a leaf that lie in a pixel, ordered by (`_healpix_29`, `_row`) over all its files.

    Parameters
    ----------
    storage, schema
        As for `leaf_batches`.
    files : pyarrow.Table
        The partitions of the leaf.
    pixel : Pixel
        The leaf or a part of it.
    """
    named = zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True)
    batches = [
        batch for path, size in named for batch in leaf_batches(storage, path, size, schema, pixel.interval)
    ]
    if files.num_rows == 1:
        return batches
    rows = in_sort_order(pa.Table.from_batches(batches, schema), ALONG)
    found: list[pa.RecordBatch] = rows.to_batches()
    return found
