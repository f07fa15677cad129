"""Tables of partitions: their order, their pixels as ranges, and the sidecars that keep long ones.

One row is one leaf file of one column group. Arithmetic is on whole columns, as a catalog may have millions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.layouts import sidecar_path
from hipslake.errors import CatalogFormatError
from hipslake.specs.base import Frozen
from hipslake.sphere.intervals import range_numbers
from hipslake.sphere.pixels import MAX_ORDER, starts, stops
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import damage_as_error
from hipslake.storage.small_files import in_threads

PARTITION_SCHEMA = pa.schema(
    [
        pa.field("order", pa.int32(), nullable=False),
        pa.field("npix", pa.int64(), nullable=False),
        pa.field("path", pa.string(), nullable=False),  # relative to the catalog's root
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
    ]
)
COVERAGE_SCHEMA = pa.schema([("order", pa.int32()), ("npix", pa.int64()), ("rows", pa.int64())])
_MOST_PIXELS = 1 << 25  # as many leaves as no catalog has: a damaged text must not fill the memory
SOURCE_SCHEMA = pa.schema(
    [
        pa.field("uri", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("stamp", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
    ]
)


class Sidecar(Frozen):
    """A table that is too long for metadata.json: a Parquet file beside the data."""

    path: str  # relative to the catalog's root
    rows: int
    sha256: str


class PartitionSidecar(Sidecar):
    """The partitions of one stretch of the curve; those of a group follow one another along it."""

    start: int  # order-29 pixels, [start, stop), that its partitions lie in
    stop: int
    writes: tuple[str, ...]  # the writes that its files lie in


def table_of(rows: Sequence[Frozen], schema: pa.Schema) -> pa.Table:
    """Models as a table: a column for each of their fields that the schema names."""
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    try:
        return pa.table(columns, schema=schema)
    except OverflowError as error:
        raise CatalogFormatError(f"metadata: a number is more than 64 bits hold ({error})") from error


def curve_sorted(partitions: pa.Table) -> pa.Table:
    """The partitions along the NESTED curve, as `PARTITION_SCHEMA`; other columns are dropped."""
    table = partitions.select(PARTITION_SCHEMA.names).cast(PARTITION_SCHEMA)
    order = table["order"].to_numpy().astype(np.int64)
    starts = table["npix"].to_numpy() << (2 * (MAX_ORDER - order))
    if np.any(starts[1:] < starts[:-1]):
        table = table.take(pa.array(np.lexsort((order, starts))))
    return table.combine_chunks()


def summed_by_leaf(partitions: pa.Table) -> pa.Table:
    """One row for every leaf, with the rows and bytes of all its files, and the path of the first.

    Parameters
    ----------
    partitions : pyarrow.Table
        `PARTITION_SCHEMA`, along the curve: the files of a leaf stand together.
    """
    order, npix = partitions["order"].to_numpy(), partitions["npix"].to_numpy()
    first = np.flatnonzero(np.append(True, (order[1:] != order[:-1]) | (npix[1:] != npix[:-1])))[: len(order)]
    leaves = partitions.select(["order", "npix", "path"]).take(pa.array(first))
    for name in ("rows", "bytes"):
        sums = np.add.reduceat(partitions[name].to_numpy(), first) if len(first) else np.empty(0, np.int64)
        leaves = leaves.append_column(name, pa.array(sums))
    return leaves


def leaf_spans(table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order-29 pixels, [start, stop), of each row of a table with `order` and `npix`; int64[n] each."""
    order, npix = table["order"].to_numpy(), table["npix"].to_numpy()
    return starts(order, npix), stops(order, npix)


def total_of(table: pa.Table, column: str) -> int:
    """The sum of a column; 0 of a table without rows."""
    return int(pc.sum(table[column]).as_py() or 0)


def pixel_ranges(order: np.ndarray, npix: np.ndarray) -> dict[int, str]:
    """Pixels as text per order, runs as `first-last`, ascending.

    Examples
    --------
    >>> pixel_ranges(np.array([2, 2, 2, 1]), np.array([7, 0, 1, 3]))
    {1: '3', 2: '0-1,7'}
    """
    if not len(order):
        return {}
    along = np.lexsort((npix, order))
    levels, pixels = np.asarray(order)[along], np.asarray(npix)[along]
    new_level = np.diff(levels) != 0
    begins = np.flatnonzero(np.concatenate(([True], new_level | (np.diff(pixels) > 1))))
    first, last = pixels[begins], pixels[np.concatenate((begins[1:], [len(pixels)])) - 1]
    begin, end = pa.array(first).cast(pa.string()), pa.array(last).cast(pa.string())
    runs = pc.if_else(first == last, begin, pc.binary_join_element_wise(begin, end, "-")).to_pylist()
    bounds = np.flatnonzero(np.concatenate(([True], np.diff(levels[begins]) != 0, [True]))).tolist()
    found = levels[begins].tolist()
    return {found[start]: ",".join(runs[start:stop]) for start, stop in pairwise(bounds)}


def pixels_in(ranges: dict[int, str]) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `pixel_ranges`: orders int64[n] and npix int64[n], ascending by (order, npix).

    Examples
    --------
    >>> [column.tolist() for column in pixels_in({1: "3", 2: "0-1,7"})]
    [[1, 2, 2, 2], [3, 0, 1, 7]]
    """
    orders, pixels = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for order, text in sorted(ranges.items()):
        first, last = _bounds(order, text)
        lengths = last - first + 1
        if np.any(lengths < 1):
            raise CatalogFormatError(f"metadata: pixels of order {order} hold a range that runs backwards")
        if not 0 <= order <= MAX_ORDER or first.min() < 0 or last.max() >= 12 << (2 * order):
            raise CatalogFormatError(f"metadata: there are no such pixels of order {order}")
        if lengths.max() > _MOST_PIXELS or lengths.sum() > _MOST_PIXELS:
            raise CatalogFormatError(f"metadata: more than {_MOST_PIXELS} pixels of order {order}")
        pixels.append(range_numbers(first, lengths))
        orders.append(np.full(len(pixels[-1]), order, np.int64))
    return np.concatenate(orders), np.concatenate(pixels)


def count_pixels(order: int, text: str) -> int:
    """How many pixels there are in the text of an order, which is as `pixel_ranges` writes it.

    Examples
    --------
    >>> count_pixels(2, "0-1,7")
    3
    """
    first, last = _bounds(order, text)
    return int(np.sum(last - first + 1))


def _bounds(order: int, text: str) -> tuple[np.ndarray, np.ndarray]:
    """First and last pixel of every run, without a loop over runs: a catalog may have millions."""
    letters = np.frombuffer(text.encode(), dtype=np.uint8)
    dashes = letters[(letters == ord(",")) | (letters == ord("-"))] == ord("-")
    try:
        numbers = pa.array(text.replace("-", ",").split(",")).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise CatalogFormatError(f"metadata: pixels of order {order} are not ranges ({error})") from error
    if np.any(dashes[1:] & dashes[:-1]):
        raise CatalogFormatError(f"metadata: pixels of order {order} hold a range with two dashes")
    opens = np.concatenate(([True], ~dashes))  # the number is the first of its run
    closes = np.concatenate((~dashes, [True]))
    return numbers[opens], numbers[closes]


def write_sidecar(
    storage: Storage, write_id: str, name: str, table: pa.Table, *, ascending: Sequence[str] = ()
) -> Sidecar:
    """Store a table as a sidecar of a write. The same table gives the same bytes.

    `ascending` are columns of numbers that are stored as differences.
    """
    data = sidecar_bytes(table, ascending)
    path = sidecar_path(write_id, name)
    storage.write(path, data)
    return Sidecar(path=path, rows=table.num_rows, sha256=hashlib.sha256(data).hexdigest())


def sidecar_bytes(table: pa.Table, ascending: Sequence[str] = ()) -> bytes:
    """The content of a sidecar; `ascending` as for `write_sidecar`."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.combine_chunks(),
        sink,
        compression="zstd",
        row_group_size=1 << 18,
        use_dictionary=[name for name in table.column_names if name not in ascending] or False,
        column_encoding=dict.fromkeys(ascending, "DELTA_BINARY_PACKED") or None,
    )
    return bytes(sink.getvalue().to_pybytes())


def write_of(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """The write that each file lies in; paths relative to the catalog's root."""
    return pc.list_element(pc.split_pattern(paths, "/", max_splits=1), 0)


def writes_of(paths: pa.ChunkedArray) -> tuple[str, ...]:
    """The writes that files lie in, sorted; paths relative to the catalog's root."""
    return tuple(sorted(pc.unique(write_of(paths)).to_pylist()))


def write_partition_sidecars(
    storage: Storage, write_id: str, name: str, table: pa.Table, *, most: int, first_number: int = 0
) -> tuple[PartitionSidecar, ...]:
    """Store a partition table as sidecars of about equal length.

    Parameters
    ----------
    storage, write_id
        As for `write_sidecar`.
    name : str
        The sidecars are called `<name>_00000` and so on, from `first_number`.
    table : pyarrow.Table
        `PARTITION_SCHEMA`, along the curve.
    most : int
        Most rows of a sidecar; more only where the files of one leaf, which stand together, go beyond.
    """
    pieces = -(-table.num_rows // most)
    even = [table.num_rows * piece // pieces for piece in range(pieces + 1)] if pieces else []
    start, stop = leaf_spans(table)
    leaves = np.flatnonzero(np.concatenate([[True], start[1:] != start[:-1], [True]]))  # and the end
    bounds = np.unique(leaves[np.searchsorted(leaves, even)]).tolist()
    sidecars = []
    for number, (low, high) in enumerate(pairwise(bounds), first_number):
        piece = table.slice(low, high - low)
        stored = write_sidecar(storage, write_id, f"{name}_{number:05d}", piece)
        sidecars.append(
            PartitionSidecar(
                **stored.model_dump(),
                start=int(start[low]),
                stop=int(stop[high - 1]),
                writes=writes_of(piece["path"]),
            )
        )
    return tuple(sidecars)


def read_partition_sidecars(
    storage: Storage, sidecars: Sequence[PartitionSidecar], columns: Sequence[str] | None = None
) -> pa.Table:
    """The partitions that some sidecars hold, as `PARTITION_SCHEMA`, or only some columns of it.

    Errors as of `read_sidecar`.
    """
    if not sidecars:
        empty = PARTITION_SCHEMA.empty_table()
        return empty.select(columns) if columns else empty
    tables = in_threads(
        storage, lambda each: read_sidecar(storage, each, PARTITION_SCHEMA, columns), sidecars
    )
    return pa.concat_tables(tables).combine_chunks()


def read_sidecar(
    storage: Storage, sidecar: Sidecar, schema: pa.Schema, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read a sidecar back.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    sidecar : Sidecar
    schema : pyarrow.Schema
        Of the whole table.
    columns : sequence of str, optional
        Those to decode; all if not given.

    Raises
    ------
    CatalogFormatError
        Its checksum, its columns or its rows are not those that metadata.json names.
    """
    where, data = storage.uri(sidecar.path), storage.read(sidecar.path)
    if hashlib.sha256(data).hexdigest() != sidecar.sha256:
        raise CatalogFormatError(f"{where}: sha256 differs from metadata.json; restore it or ingest again")
    with damage_as_error(where):
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.schema_arrow.names != schema.names or file.metadata.num_rows != sidecar.rows:
            raise CatalogFormatError(f"{where}: not the table that metadata.json describes")
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        return file.read(schema.names, use_threads=False).cast(schema)


def sha256_sums(tables: Iterable[pa.Table]) -> bytes:
    """The text of `SHA256SUMS` for bulk downloads, as `sha256sum --check` takes it; sorted by path."""
    files = pa.concat_tables([table.select(["path", "sha256"]) for table in tables]).sort_by("path")
    lines = zip(files["sha256"].to_pylist(), files["path"].to_pylist(), strict=True)
    return "".join(f"{digest}  {path}\n" for digest, path in lines).encode()
