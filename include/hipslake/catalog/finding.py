"""Rows by the values of an indexed column."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from hipslake.catalog.foreign.foreign_metadata import ForeignMetadata
from hipslake.catalog.foreign.index_lookup import leaves_of_values
from hipslake.catalog.indexed_leaves import unknown_places
from hipslake.catalog.leaf_opening import read_errors
from hipslake.catalog.metadata import CatalogMetadata, Index
from hipslake.catalog.reading import read_parts
from hipslake.catalog.selection import select
from hipslake.errors import IndexMissingError, SchemaMismatchError
from hipslake.joins.key_codes import key_kind
from hipslake.predicates.evaluation import passing
from hipslake.predicates.predicate_tree import InArray
from hipslake.predicates.pruning import pushed_down
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.column_chunks import check_chunks
from hipslake.storage.folder import Storage
from hipslake.versions.vacuumed_versions import vacuum_told

log = logging.getLogger(__name__)


def find_rows(
    storage: Storage,
    metadata: CatalogMetadata,
    column: str,
    values: Any,
    columns: Sequence[str] | None = None,
    group: str | None = None,
) -> pa.Table:
    """The rows with some values of an indexed column, ordered by (`_healpix_29`, `_row`).

    Parameters
    ----------
    storage, metadata, column, values
        As for `find_values`.
    columns : sequence of str, optional
        All if not given.
    group : str, optional
        The column group to read alone.

    Raises
    ------
    IndexMissingError, SchemaMismatchError
        As of `find_values`; or there is no such column.
    """
    select(metadata, [column])
    with vacuum_told(storage, metadata.version):
        where, wanted = find_values(storage, metadata, column, values)
    selection = select(metadata, columns, InArray(column, wanted), group)
    tables = list(read_parts(storage, metadata, selection, where)) if len(where.start) else []
    return pa.concat_tables(tables) if tables else selection.schema.empty_table()


def find_values(
    storage: Storage, metadata: CatalogMetadata, column: str, values: Any
) -> tuple[Intervals, pa.Array]:
    """Where on the curve the rows with some values of a column can lie, and the values in the column's type.

    Rows that the index does not know are looked for in the leaf files that it was not built of.

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
    if isinstance(metadata, ForeignMetadata):
        return _in_foreign(metadata, field, values)
    index = metadata.index_of(column)
    if index is None:
        known = ", ".join(index.column for index in metadata.indices) or "none"
        raise IndexMissingError(
            f"column {column!r} of catalog {metadata.catalog}, version {metadata.version}, has no index "
            f"(indexed: {known}); write 'index: [{column}]' into its spec and ingest again, or run the DAG "
            f"catalog_index__{metadata.catalog}, which builds it for the published version"
        )
    wanted = _as_column(values, field, metadata)
    elsewhere = unknown_places(storage, metadata, index)
    if elsewhere == Intervals.whole_sky():
        log.warning(
            "Catalog %s: the index of column %r was built of other leaves, so that all %d are looked "
            "through; catalog_index__%s brings it up to date.",
            metadata.catalog,
            column,
            metadata.groups[0].leaves,
            metadata.catalog,
        )
        return elsewhere, wanted
    h29 = _entries(storage, index, wanted)
    return Intervals.together([Intervals.union(h29, h29 + 1), elsewhere]), wanted


def _in_foreign(metadata: ForeignMetadata, field: pa.Field, values: Any) -> tuple[Intervals, pa.Array]:
    """What `find_values` gives, of a catalog of others: by its index, or everywhere where it has none."""
    wanted = _as_column(values, field, metadata)
    found = leaves_of_values(metadata, field.name, wanted)
    if found is None:
        log.warning(
            "Catalog %s has no index of column %r: all of its %d leaves are looked through.",
            metadata.tree.uri,
            field.name,
            metadata.groups[0].leaves,
        )
        found = Intervals.whole_sky()
    return found, wanted


def _entries(storage: Storage, index: Index, wanted: pa.Array) -> NDArray[np.int64]:
    """The pixels of the entries with some values; only files that may hold them are opened."""
    if not len(wanted):
        return np.empty(0, np.int64)
    low, high = pc.min(wanted).as_py(), pc.max(wanted).as_py()
    paths = [storage.arrow_path(f.path) for f in index.files if f.first <= high and f.last >= low]
    if not paths:
        return np.empty(0, np.int64)
    sought = InArray(index.column, wanted)
    with read_errors(storage, posixpath.dirname(index.files[0].path)):
        dataset = ds.dataset(paths, format="parquet", filesystem=storage.arrow_filesystem())
        skipping = pushed_down(sought, dataset.schema, dataset.schema)
        for fragment in dataset.get_fragments():
            check_chunks(fragment, {index.column})
        rows = dataset.to_table([index.column, HEALPIX_COLUMN], filter=skipping)
    return passing(sought, rows)[HEALPIX_COLUMN].to_numpy()


def _as_column(values: Any, field: pa.Field, metadata: CatalogMetadata) -> pa.Array:
    """Distinct values in the type of a column; those that it cannot hold are equal to none of its rows."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    where = f"values of column {field.name!r} of catalog {metadata.catalog}"
    text = key_kind(kind, where) == "text"
    try:
        given = _array_of(values, None if text else kind)
        if pa.types.is_dictionary(given.type):
            given = given.dictionary_decode()
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise SchemaMismatchError(
            f"{where} are {kind}, and not all of what was given is ({str(error).splitlines()[0]})"
        ) from None
    if given.null_count == len(given):
        return pa.array([], kind)
    if text != (key_kind(given.type, where) == "text"):
        raise SchemaMismatchError(f"{where} are {kind}, and {given.type} was given")
    given = given.drop_null().unique()
    return given.cast(kind) if text else _fitting(given, kind)


def _fitting(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Those integers that a type can hold, in that type.

    Arrow takes the bounds to a type that both have in common, and int64 and uint64 have none. So they are
    bounds that the type of the numbers holds as well.
    """
    own, wanted = (np.iinfo(each.to_pandas_dtype()) for each in (numbers.type, kind))
    low = pa.scalar(max(own.min, wanted.min), numbers.type)
    high = pa.scalar(min(own.max, wanted.max), numbers.type)
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return numbers.filter(inside).cast(kind)


def _array_of(values: Any, numbers: pa.DataType | None) -> pa.Array:
    """An array of the values that a user gives: one, any number, or an array.

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
    except OverflowError:  # a number beyond int64, and maybe beyond every type of Arrow
        if numbers is None:
            raise
        limits = np.iinfo(numbers.to_pandas_dtype())
        return pa.array([v for v in listed if v is None or limits.min <= v <= limits.max], numbers)
