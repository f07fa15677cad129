"""Indices: what one is built of, whether it is current, and where it says that values lie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.layouts import index_root
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Index
from hipslake.catalog.partitions import COVERAGE_SCHEMA, read_sidecar
from hipslake.errors import IndexMissingError, SchemaMismatchError
from hipslake.joins.keys import key_kind
from hipslake.specs.catalog import Layout
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, starts, stops
from hipslake.storage import Storage

ROWS_COLUMN = "rows"
_ROW_GROUP_ROWS = 65_536


def index_schema(column: pa.Field) -> pa.Schema:
    """The columns of an index file, as HATS readers expect them, and `_healpix_29` and the count of rows.

    Parameters
    ----------
    column : pyarrow.Field
        The column of the catalog.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return pa.schema(
        [
            pa.field(column.name, kind, nullable=False),
            pa.field(HEALPIX_COLUMN, pa.int64(), nullable=False),
            pa.field(ROWS_COLUMN, pa.int64(), nullable=False),
            pa.field("Norder", pa.uint8(), nullable=False),
            pa.field("Npix", pa.uint64(), nullable=False),
        ]
    )


def encode_index(table: pa.Table) -> pa.Buffer:
    """The bytes of an index file; the table is sorted."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        version="2.6",
        compression="zstd",
        row_group_size=_ROW_GROUP_ROWS,
        sorting_columns=[pq.SortingColumn(0)],
        write_page_index=True,
    )
    return sink.getvalue()


def leaves_digest(group: GroupMetadata) -> str:
    """What tells the leaf pixels of one version from those of another."""
    text = json.dumps({str(order): pixels for order, pixels in sorted(group.pixels.items())})
    return hashlib.sha256(text.encode()).hexdigest()


def is_current(metadata: CatalogMetadata, index: Index) -> bool:
    """Whether an index covers every row of a version and names its leaves: what HATS readers need."""
    return set(index.writes) == set(metadata.increment_writes) and index.leaves == leaves_digest(
        metadata.groups[0]
    )


def hats_index_root(metadata: CatalogMetadata, index: Index) -> str | None:
    """The HATS catalog of an index, relative to the root; None where HATS readers may not use it."""
    if metadata.layout is not Layout.HATS or not is_current(metadata, index) or not index.others:
        return None
    return index_root(index.others[0].partition("/")[0], index.column)


def index_file_path(write_id: str, column: str, number: int) -> str:
    """A file of an index."""
    return f"{index_root(write_id, column)}/dataset/index/part-{number:05d}.parquet"


def find_values(
    storage: Storage, metadata: CatalogMetadata, column: str, values: Any
) -> tuple[Intervals, pa.Array]:
    """Where on the curve the rows with some values of a column can lie, and the values in the column's type.

    Rows of increments that the index does not cover are looked for wherever these increments have rows.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    column : str
    values : value, iterable or array
        Nulls are equal to nothing.

    Raises
    ------
    IndexMissingError
        The column has no index; the message says how to build it.
    SchemaMismatchError
        The values are not of the column's type.
    """
    field = metadata.schema_of(metadata.group_with(column)).field(column)
    index = metadata.index_of(column)
    if index is None:
        known = ", ".join(index.column for index in metadata.indices) or "none"
        raise IndexMissingError(
            f"column {column!r} of catalog {metadata.catalog}, version {metadata.version}, has no index "
            f"(indexed: {known}); write 'index: [{column}]' into its spec and ingest again, or run the DAG "
            f"catalog_index__{metadata.catalog}, which builds it for the published version"
        )
    wanted = _as_column(values, field, metadata)
    h29 = _entries(storage, index, wanted)
    stretches = [(h29, h29 + 1)]
    for increment in metadata.increments:
        if increment.write_id not in set(index.writes):
            covered = read_sidecar(storage, increment.coverage, COVERAGE_SCHEMA)
            order, npix = covered["order"].to_numpy().astype(np.int64), covered["npix"].to_numpy()
            stretches.append((starts(order, npix), stops(order, npix)))
    return Intervals.union(*(np.concatenate(side) for side in zip(*stretches, strict=True))), wanted


def _entries(storage: Storage, index: Index, wanted: pa.Array) -> NDArray[np.int64]:
    """The pixels of the entries with some values; only files that may hold them are opened."""
    if not len(wanted):
        return np.empty(0, np.int64)
    least, greatest = pc.min(wanted), pc.max(wanted)  # typed: as plain numbers they would be int64
    low, high = least.as_py(), greatest.as_py()
    paths = [storage.arrow_path(f.path) for f in index.files if f.first <= high and f.last >= low]
    if not paths:
        return np.empty(0, np.int64)
    dataset = ds.dataset(paths, format="parquet", filesystem=storage.arrow_filesystem())
    # Row groups are skipped by the bounds before the set is looked at.
    inside = (pc.field(index.column) >= least) & (pc.field(index.column) <= greatest)
    found = dataset.to_table([HEALPIX_COLUMN], filter=inside & pc.field(index.column).isin(wanted))
    return found[HEALPIX_COLUMN].to_numpy()


def _as_column(values: Any, field: pa.Field, metadata: CatalogMetadata) -> pa.Array:
    """Distinct values in the type of a column; those that it cannot hold are equal to none of its rows."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    where = f"values of column {field.name!r} of catalog {metadata.catalog}"
    text = key_kind(kind, where) == "text"
    try:
        given = _array_of(values, None if text else kind)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise SchemaMismatchError(
            f"{where} are {kind}, and not all of what was given is ({str(error).splitlines()[0]})"
        ) from None
    if given.null_count == len(given):
        return pa.array([], kind)
    if text != (key_kind(given.type, where) == "text"):
        raise SchemaMismatchError(f"{where} are {kind}, and {given.type} was given")
    given = given.drop_null().unique()
    if text:
        return given.cast(kind)
    low, high = (np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max)
    fits = [value for value in given.to_pylist() if low <= value <= high] if given.type != kind else given
    return pa.array(fits, kind)


def _array_of(values: Any, numbers: pa.DataType | None) -> pa.Array:
    """What a user may give: one value, any number of them, or an array.

    `numbers` is the type of a column of integers; those that it cannot hold may be left out.
    """
    dimensions = getattr(values, "ndim", None)  # of numpy and pandas
    if dimensions is not None:
        values = pa.array(values) if dimensions else values.item()
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    single = isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)
    listed = [values] if single else list(values)
    try:
        return pa.array(listed)
    except OverflowError:
        if numbers is None:
            raise
        limits = np.iinfo(numbers.to_pandas_dtype())
        return pa.array([v for v in listed if v is None or limits.min <= v <= limits.max], numbers)
