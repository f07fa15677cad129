"""Reading one leaf file: its rows in a stretch of the curve, those that meet a condition, or some columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.merging import within
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.engine.reordering import in_order, in_sort_order
from hipslake.errors import StorageError, VerificationError
from hipslake.predicates.evaluation import passing
from hipslake.predicates.predicate_tree import Predicate
from hipslake.predicates.pruning import pushed_down
from hipslake.sources.conforming import conform
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, WHOLE_SKY, Pixel
from hipslake.storage.column_chunks import ColumnChunks, check_chunks
from hipslake.storage.folder import Storage

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
    with read_errors(storage, path):
        fragment = _FORMAT.make_fragment(storage.arrow_path(path), storage.arrow_filesystem())
        footer = fragment.metadata
        if len(numbers) and numbers[-1] >= footer.num_rows:
            raise VerificationError(
                f"{storage.uri(path)} has {footer.num_rows} rows, fewer than metadata.json says; restore it "
                "or ingest again: Catalog.verify() tells more"
            )
        lengths = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        ends = np.cumsum(lengths, dtype=np.int64)
        of_group = np.searchsorted(ends, numbers, side="right")
        chosen = np.unique(of_group)
        read = np.cumsum(np.array(lengths, np.int64)[chosen])  # rows, up to the end of each that is read
        skipped = (ends[chosen] - read)[np.searchsorted(chosen, of_group)]
        fragment = fragment.subset(row_group_ids=chosen.tolist())
        table = _table_of(fragment, schema, columns, None, in_threads=footer.num_rows >= FEW_ROWS)
    return in_order(table, numbers - skipped)


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
    storage: Storage, path: str, columns: Collection[str], inside: Intervals
) -> list[RowGroupSize]:
    """The row groups of a leaf file that may hold rows of some intervals, by its footer alone.

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
    found = []
    with leaf_file(storage, path) as file:
        footer = file.metadata
        chunks, paths = ColumnChunks(footer), [column.path for column in footer.schema]
        wanted = [
            at
            for at, name in enumerate(paths)
            if name in columns or any(name.startswith(f"{column}.") for column in columns)
        ]
        for number in _row_groups(footer, inside):
            size = sum(chunks(number, at).total_uncompressed_size for at in wanted)
            found.append(RowGroupSize(range_of(chunks, number)[0], footer.row_group(number).num_rows, size))
    return found


def column_batches(storage: Storage, path: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a leaf file, batch by batch, in the order of the file.

    Raises
    ------
    VerificationError
        The file is missing or damaged.
    """
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


def range_of(chunks: ColumnChunks, group: int) -> tuple[int, int]:
    """The order-29 pixels, [start, stop), of a row group, by what the footer says of its first column.

    Raises
    ------
    FooterError
        The footer contradicts itself.
    """
    statistics = chunks(group, 0).statistics
    if statistics is None or not statistics.has_min_max:
        return WHOLE_SKY
    return statistics.min, statistics.max + 1


@contextmanager
def read_errors(storage: Storage, path: str) -> Iterator[None]:
    """Turn errors of pyarrow into `VerificationError`, or `StorageError` where a retry may help."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        missing = isinstance(error, FileNotFoundError)
        if isinstance(error, OSError) and error.errno is not None and not missing:
            raise StorageError(f"{storage.uri(path)}: {error}; try again") from error
        what = "is missing" if missing else f"cannot be read ({error})"
        raise VerificationError(
            f"{storage.uri(path)} {what}; restore it or ingest again: Catalog.verify() tells more"
        ) from error


@contextmanager
def leaf_file(storage: Storage, path: str, size: int | None = None) -> Iterator[pq.ParquetFile]:
    """Open a leaf file; `size` in bytes, where it is known. Errors of pyarrow in the block become ours."""
    with (
        read_errors(storage, path),
        storage.arrow_file(path, size) as source,
        pq.ParquetFile(source, pre_buffer=not storage.is_local) as file,  # few large requests to a store
    ):
        yield file


def _row_groups(footer: pq.FileMetaData, inside: Intervals, wanted: Wanted | None = None) -> list[int]:
    """The row groups that may hold rows of some intervals; of these, those that are wanted."""
    chunks = ColumnChunks(footer)
    ranges = [range_of(chunks, number) for number in range(footer.num_row_groups)]
    found = [number for number, (start, stop) in enumerate(ranges) if len(inside.within(start, stop))]
    if wanted is None or not found:
        return found
    chosen = wanted(*np.array([ranges[number] for number in found], np.int64).T)
    return [number for number, is_wanted in zip(found, chosen.tolist(), strict=True) if is_wanted]
