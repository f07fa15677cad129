"""Leaf files: how a partition is encoded as Parquet, and how its footer is read back.

Every common reader takes them as they are: DELTA_BINARY_PACKED for the sorted index, dictionaries for what
repeats, pages of 128 KiB with an index. Where columns are described, a VOTable in the footer says how. The
HATS libraries since 0.11 also write floats as BYTE_STREAM_SPLIT; the spec can ask for it, but by default they
are plain: Spark's vectorized reader knows no such encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.leaf_buffer import LeafBuffer
from hipslake.catalog.schema import HEALPIX_COLUMN, ICRS_COLUMNS, OBJECT_COLUMNS, ROW_COLUMN, ROW_IDENTITY
from hipslake.errors import CatalogFormatError
from hipslake.exports.parquet_votable import FooterVotable
from hipslake.sources.widening import without_dictionaries
from hipslake.specs.catalog_spec import ParquetSpec
from hipslake.storage.held_file import HeldFile
from hipslake.storage.request_pool import RequestPool

if TYPE_CHECKING:
    from hipslake.storage.folder import Storage

PAGE_BYTES = 128 * 1024
LEVELS = {"zstd": 3, "gzip": 6}  # where the spec names none; zstd 3 has most of the gain of 15, far faster

_FLOATS = ("FLOAT", "DOUBLE")
_ADDED = {
    HEALPIX_COLUMN: {"ucd": "pos.healpix", "description": "HEALPix pixel of order 29, NESTED, ICRS"},
    ROW_COLUMN: {"ucd": "meta.record", "description": "identifies the row"},
    ICRS_COLUMNS[0]: {"ucd": "pos.eq.ra;meta.main"},
    ICRS_COLUMNS[1]: {"ucd": "pos.eq.dec;meta.main"},
    OBJECT_COLUMNS[0]: {"ucd": "pos.eq.ra"},
    OBJECT_COLUMNS[1]: {"ucd": "pos.eq.dec"},
}
"""What a footer says of the columns that a catalog adds."""
_BUFFER_BYTES = 64 * 1024  # of a column chunk, when one row of it is read
_MOST_RANGES = (
    16  # that are fetched of a file for one row; of more columns, what lies between some comes along
)


def write_options(parquet: ParquetSpec, schema: pa.Schema) -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter` for the leaf files of a group. Build once; they pickle.

    Parameters
    ----------
    parquet : ParquetSpec
        Codec, level and the encoding of floats. Its `row_group_rows` is for whoever cuts the row groups.
    schema : pyarrow.Schema
        The group's schema, from `group_schema`.
    """
    leaves = leaf_columns(schema)  # Parquet counts and names the leaves of nested columns
    encodings = {path: parquet.floats.upper() for path, physical in leaves if physical in _FLOATS}
    encodings |= {path: "DELTA_BINARY_PACKED" for path, _ in leaves if path in ROW_IDENTITY}
    paths = [path for path, _ in leaves]
    sorted_by = [paths.index(name) for name in ROW_IDENTITY if name in paths]
    level = LEVELS.get(parquet.compression) if parquet.level is None else parquet.level
    return {
        "version": "2.6",
        "compression": parquet.compression,
        "compression_level": level,
        "use_dictionary": [path for path in paths if path not in encodings] or False,
        "column_encoding": encodings,
        "sorting_columns": [pq.SortingColumn(index) for index in sorted_by],
        "write_page_index": True,
        "data_page_size": PAGE_BYTES,
        "store_schema": True,
    }


def encode_leaf(row_groups: Iterable[pa.Table], schema: pa.Schema, options: dict[str, Any]) -> pa.Buffer:
    """A leaf file in memory; parameters and errors as of `encode_leaf_into`."""
    buffer = LeafBuffer()
    encode_leaf_into(buffer, row_groups, schema, options)
    return buffer.content


def encode_leaf_into(
    buffer: LeafBuffer, row_groups: Iterable[pa.Table], schema: pa.Schema, options: dict[str, Any]
) -> LeafEnds:
    """Encode a leaf file. The same rows give the same bytes, however the tables are chunked.

    Parameters
    ----------
    buffer : LeafBuffer
        What the file is put into; it then knows the digest, too.
    row_groups : iterable of pyarrow.Table
        Each becomes one row group; together they are sorted by (`_healpix_29`, `_row`). Taken one by one, so
        that a generator holds only one at a time.
    schema : pyarrow.Schema
        The group's schema; every table's columns are taken in its order.
    options : dict
        From `write_options`.

    Returns
    -------
    LeafEnds

    Raises
    ------
    ValueError
        There is no row: empty leaves are not written.
    """
    first_row, votable = None, footer_votable(schema)
    footers: list[pq.FileMetaData] = []
    file = pa.PythonFile(buffer, mode="w")
    with pq.ParquetWriter(file, schema, metadata_collector=footers, **options) as writer:
        for table in row_groups:
            if table.num_rows:
                written = _one_chunk(table, schema)
                if first_row is None:
                    first_row = _own_rows(written.slice(0, 1))
                votable.add(written)
                writer.write_table(written, row_group_size=table.num_rows)
        writer.add_key_value_metadata(votable.entries())
    if first_row is None:
        raise ValueError("a leaf without rows is not written")
    return LeafEnds(footers[0], first_row)


def _own_rows(rows: pa.Table) -> pa.RecordBatch:
    """Some rows in memory of their own: a slice of a table would keep the whole."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    with pa.ipc.open_stream(sink.getvalue()) as stream:
        return stream.read_next_batch()


def footer_votable(schema: pa.Schema) -> FooterVotable:
    """The VOTable in the footer of a leaf file, of its columns; there is none where nobody describes any.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of a column group.
    """
    return FooterVotable(schema, _ADDED)


def read_footer(storage: Storage, path: str, size: int | None = None) -> pq.FileMetaData:
    """The footer of a leaf file; `size` in bytes, where it is known, spares a store a question.

    Raises
    ------
    CatalogFormatError
        The file is not Parquet, or is truncated.
    FileNotFoundError
    """
    with _damage_named(storage, path), storage.arrow_file(path, size) as file:
        return pq.read_metadata(file)


def read_first_row(
    storage: Storage, path: str, size: int | None = None, pool: RequestPool | None = None
) -> tuple[pq.FileMetaData, pa.RecordBatch]:
    """The footer of a leaf file and its first row, in the columns of the file.

    Of a store, the first pages of all columns are fetched side by side once the footer is there.

    Parameters
    ----------
    storage : Storage
    path : str
    size : int, optional
        In bytes, where it is known, which spares a store a question.
    pool : RequestPool, optional
        That asks a store; it may be shared by many calls in threads. One of its own if not given.

    Raises
    ------
    CatalogFormatError
        The file is not Parquet, is truncated, or its first pages are damaged.
    FileNotFoundError
    """
    with ExitStack() as held:
        held.enter_context(_damage_named(storage, path))
        if storage.is_local:
            source = held.enter_context(storage.arrow_file(path, size))
            footer = pq.read_metadata(source)
        else:
            pieces = HeldFile(storage, path, storage.entry(path).size if size is None else size)
            source = held.enter_context(pieces.arrow())
            footer = pq.read_metadata(source)
            pool = pool or held.enter_context(RequestPool())
            wanted = pieces.missing(_first_pages(footer), _MOST_RANGES)
            pieces.fetch_all(wanted, pool)
        file = pq.ParquetFile(source, metadata=footer, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        # Without pyarrow's own threads: for one row, handing work to them costs more than the work.
        return footer, next(file.iter_batches(batch_size=1, row_groups=[0], use_threads=False))


class LeafEnds(NamedTuple):
    """The footer of a leaf file, and its first row, in the columns of the file."""

    footer: pq.FileMetaData
    first_row: pa.RecordBatch


def _first_pages(footer: pq.FileMetaData) -> list[tuple[int, int]]:
    """Where the first pages of the columns of the first row group lie, in bytes [start, stop)."""
    group = footer.row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    found = []
    for chunk in chunks:
        data = chunk.data_page_offset
        start = data if chunk.dictionary_page_offset is None else min(chunk.dictionary_page_offset, data)
        stop = min(start + chunk.total_compressed_size, data + PAGE_BYTES + _BUFFER_BYTES)
        found.append((start, stop))
    return found


@contextmanager
def _damage_named(storage: Storage, path: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        raise CatalogFormatError(
            f"{storage.uri(path)}: cannot be read as Parquet ({error}); restore the file or ingest again"
        ) from error


def leaf_columns(schema: pa.Schema) -> list[tuple[str, str]]:
    """Path and physical type of every Parquet leaf column, as pyarrow itself lays them out."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    parquet = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [(parquet.column(i).path, parquet.column(i).physical_type) for i in range(len(parquet))]


def _one_chunk(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """One chunk per column: where there are several, page cuts and the order of dictionaries follow them."""
    columns = []
    for field in schema:
        column = table.column(field.name)
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type).combine_chunks().dictionary_encode().cast(field.type)
        elif (written_out := without_dictionaries(field.type)) != field.type:  # nested ones
            column = column.cast(written_out).combine_chunks().cast(field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema).combine_chunks()
