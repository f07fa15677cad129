"""Reading one leaf file: its rows in a stretch of the curve, those that meet a condition, or some columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.foreign_rows import current_files, foreign_batches, foreign_rows, row_group_ranges
from hipslake.catalog.leaf_form import LeafForm, form_of
from hipslake.catalog.leaf_opening import leaf_file, range_of, read_errors
from hipslake.catalog.merging import within
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.engine.reordering import in_order, in_sort_order
from hipslake.errors import VerificationError
from hipslake.predicates.evaluation import passing
from hipslake.predicates.predicate_tree import Predicate
from hipslake.predicates.pruning import pushed_down
from hipslake.sources.conforming import conform
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, WHOLE_SKY, Pixel
from hipslake.storage.column_chunks import ColumnChunks, check_chunks
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_tail import parquet_tail

_FORMAT = ds.ParquetFileFormat()
_BATCH_ROWS = 1 << 20
FEW_ROWS = 1 << 16
"""Of a file: for fewer, handing columns to other threads costs more than it wins."""
ALONG = [(name, "ascending") for name in ROW_IDENTITY]
"""The order of the rows of a catalog."""
Wanted = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Takes the starts and stops of the row groups of a file, as order-29 pixels; says which are read."""


def read_leaf(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    columns: list[str],
    predicate: Predicate | None,
    inside: Intervals | None,
    *,
    wanted: Wanted | None = None,
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

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    if form_of(schema) is not None:
        return foreign_rows(storage, path, schema, columns, predicate, inside)
    needed = columns
    if predicate is not None:
        needed = [*columns, *sorted(predicate.columns.difference(columns))]
    with read_errors(storage, path):
        fragment = _FORMAT.make_fragment(storage.arrow_path(path), storage.arrow_filesystem())
        stored = fragment.physical_schema
        in_threads = fragment.metadata.num_rows >= FEW_ROWS
        condition = _span(inside)
        skipping = None if predicate is None else pushed_down(predicate, schema, stored)
        if skipping is not None:
            condition = skipping if condition is None else condition & skipping
        if inside is not None:
            fragment = fragment.subset(row_group_ids=_row_groups(fragment.metadata, inside, wanted))
        if condition is not None:
            asked = predicate.columns if predicate is not None and skipping is not None else ()
            check_chunks(fragment, {HEALPIX_COLUMN, *asked})
        table = _table_of(fragment, schema, needed, condition, in_threads=in_threads)
    if predicate is not None:
        table = passing(predicate, _of_types(table, schema)).select(columns)
    if inside is not None and len(inside.start) > 1:
        table = table.filter(pa.array(inside.hold(table[HEALPIX_COLUMN].to_numpy())))
    return table


def leaf_files(storage: Storage, path: str, schema: pa.Schema) -> list[str]:
    """The files of a leaf, which has several where others wrote it as a folder; `schema` is its group's."""
    form = form_of(schema)
    return [path] if form is None else current_files(storage, path, form)


def leaf_rows_at(
    storage: Storage, path: str, schema: pa.Schema, columns: list[str], numbers: NDArray[np.int64]
) -> pa.Table:
    """Some rows of a file by their numbers in it, in their order; only row groups that hold them are read.

    Parameters
    ----------
    storage, path, schema, columns
        As for `read_leaf`.
    numbers : int64[n]
        Ascending.

    Raises
    ------
    VerificationError
        The file is missing or damaged, or has fewer rows.
    """
    if form_of(schema) is not None:
        rows = foreign_rows(storage, path, schema, columns)
        _check_length(storage, path, numbers, rows.num_rows)
        return in_order(rows, numbers)
    with read_errors(storage, path):
        fragment = _FORMAT.make_fragment(storage.arrow_path(path), storage.arrow_filesystem())
        footer = fragment.metadata
        _check_length(storage, path, numbers, footer.num_rows)
        lengths = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        ends = np.cumsum(lengths, dtype=np.int64)
        of_group = np.searchsorted(ends, numbers, side="right")
        chosen = np.unique(of_group)
        read = np.cumsum(np.array(lengths, np.int64)[chosen])  # rows, up to the end of each that is read
        skipped = (ends[chosen] - read)[np.searchsorted(chosen, of_group)]
        fragment = fragment.subset(row_group_ids=chosen.tolist())
        table = _table_of(fragment, schema, columns, None, in_threads=footer.num_rows >= FEW_ROWS)
    return in_order(table, numbers - skipped)


def _check_length(storage: Storage, path: str, numbers: NDArray[np.int64], rows: int) -> None:
    if len(numbers) and numbers[-1] >= rows:
        raise VerificationError(
            f"{storage.uri(path)} has {rows} rows, fewer than metadata.json says; restore it or ingest "
            "again: Catalog.verify() tells more"
        )


def _table_of(
    fragment: ds.ParquetFileFragment,
    schema: pa.Schema,
    columns: list[str],
    condition: ds.Expression | None,
    *,
    in_threads: bool,
) -> pa.Table:
    """Rows of a file that meet a condition."""
    if set(schema.names) <= set(fragment.physical_schema.names):
        return fragment.to_table(columns=columns, filter=condition, use_threads=in_threads)
    # Written before the catalog had all its columns.
    scanner = ds.Scanner.from_fragment(
        fragment, schema=schema, columns=columns, filter=condition, use_threads=in_threads
    )
    return scanner.to_table()


def _span(inside: Intervals | None) -> ds.Expression | None:
    """A condition that rows in some intervals meet."""
    if inside is None:
        return None
    if not len(inside.start):
        return pc.scalar(False)
    h29 = pc.field(HEALPIX_COLUMN)
    return (h29 >= int(inside.start[0])) & (h29 < int(inside.stop[-1]))


def _of_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with the types that a schema has for its columns; files may hold others for the same values."""
    wanted = pa.schema([schema.field(name) for name in table.column_names])
    return table if table.schema.equals(wanted) else table.cast(wanted)


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
    with leaf_file(storage, path, size) as file:
        inside = _row_groups(file.metadata, Intervals.union([start], [stop]), wanted)
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
    storage: Storage, path: str, schema: pa.Schema, columns: Collection[str], inside: Intervals
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

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    if (form := form_of(schema)) is not None:
        return _foreign_sizes(storage, path, form, columns, inside)
    found = []
    with leaf_file(storage, path) as file:
        footer = file.metadata
        chunks, wanted = ColumnChunks(footer), _places_of(footer, columns)
        for number in _row_groups(footer, inside):
            size = sum(chunks(number, at).total_uncompressed_size for at in wanted)
            found.append(RowGroupSize(range_of(chunks, number)[0], footer.row_group(number).num_rows, size))
    return found


def _places_of(footer: pq.FileMetaData, columns: Collection[str]) -> list[int]:
    """The leaf columns of a file that are of some columns."""
    return [
        at
        for at, name in enumerate(column.path for column in footer.schema)
        if name in columns or any(name.startswith(f"{column}.") for column in columns)
    ]


def _foreign_sizes(
    storage: Storage, path: str, form: LeafForm, columns: Collection[str], inside: Intervals
) -> list[RowGroupSize]:
    """As `row_group_sizes`, of a leaf of others; row groups of unknown places begin with the leaf."""
    found = []
    first = int(inside.start[0]) if len(inside) else 0
    for file in current_files(storage, path, form):
        with read_errors(storage, file):
            footer = parquet_tail(storage, file).footer
            chunks, wanted = ColumnChunks(footer), _places_of(footer, [*columns, form.ra, form.dec])
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


def _row_groups(footer: pq.FileMetaData, inside: Intervals, wanted: Wanted | None = None) -> list[int]:
    """The row groups that may hold rows of some intervals; of these, those that are wanted."""
    chunks = ColumnChunks(footer)
    ranges = [range_of(chunks, number) for number in range(footer.num_row_groups)]
    found = [number for number, (start, stop) in enumerate(ranges) if len(inside.within(start, stop))]
    if wanted is None or not found:
        return found
    chosen = wanted(*np.array([ranges[number] for number in found], np.int64).T)
    return [number for number, is_wanted in zip(found, chosen.tolist(), strict=True) if is_wanted]
