"""Which rows are to be deleted or reassigned, by keys, by a filter or in a region, and which those are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from hipslake.catalog.finding import find_values
from hipslake.catalog.metadata import CatalogMetadata, KeyRecords
from hipslake.catalog.metadata.deletions import MOST_TEXT
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.reading import read_parts
from hipslake.catalog.records.key_columns import as_plain
from hipslake.catalog.records.record_lookup import lookup
from hipslake.catalog.records.record_order import RecordOrder
from hipslake.catalog.records.record_rows import DELETE_COLUMN, as_records, key_of, records_schema
from hipslake.catalog.records.winners import winning
from hipslake.catalog.schema import ROW_COLUMN, ROW_IDENTITY
from hipslake.catalog.selection import joined_schema, select
from hipslake.errors import InputError, SchemaMismatchError, SpecError
from hipslake.predicates.predicate_tree import InArray
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.regions import Region
from hipslake.storage.folder import Storage

_ROUNDING = 1e-6  # of a row: 0.29 of 100 rows are 28.999999999999996


class Purpose(NamedTuple):
    """What rows are chosen for, in words, and how many may be chosen at most."""

    name: str
    done: str
    most: int

    def limit(self, rows: int, max_fraction: float, *, force: bool) -> int:
        """How many of some rows may be chosen: a part of them; by `force` any number up to `most`.

        Raises
        ------
        SpecError
            `max_fraction` is no part.
        """
        if not 0 <= max_fraction <= 1:
            raise SpecError(f"max_fraction: {max_fraction} is no part of the rows; give a number from 0 to 1")
        return self.most if force else min(self.most - 1, int(max_fraction * rows + _ROUNDING))


DELETE = Purpose("delete", "deleted", 64 << 20)
"""Rows are listed in memory, about 64 bytes for each and its key."""
REASSIGNMENT = Purpose("reassignment", "reassigned", 4 << 20)
"""Rows are held in memory, with all their columns."""


@dataclass(frozen=True)
class FoundRows:
    """Rows of a version.

    Attributes
    ----------
    rows : pyarrow.Table
        `_healpix_29` and `_row`; in mode upsert as `records_schema` has them, with their keys.
    missing_keys : int
        Of the keys that were given, distinct ones that have no row.
    """

    rows: pa.Table
    missing_keys: int = 0


@dataclass(frozen=True)
class RowsToCorrect:
    """How rows are chosen: exactly one of `keys`, `filters` and `region` is given.

    Attributes
    ----------
    purpose : Purpose
    keys : object, optional
        Values of the key column: a sequence, or an array of numpy, pandas or Arrow; of a key of several
        columns, a table, a data frame, a mapping of columns, or for each row a tuple or a mapping.
    filters : str or list or pyarrow.compute.Expression, optional
        As of `Catalog.read`.
    region : Region or str, optional
        As of `Catalog.read`.
    column : str, optional
        Mode append: the indexed column that keys are of; the only one if not given.
    """

    purpose: Purpose
    keys: Any = None
    filters: Any = None
    region: Region | str | None = None
    column: str | None = None

    def check(self) -> None:
        """Refuse what chooses nothing, or in two ways.

        Raises
        ------
        SpecError
            It is not exactly one of the three.
        """
        given = [name for name in ("keys", "filters", "region") if getattr(self, name) is not None]
        if len(given) != 1:
            what = " and ".join(given) if given else "none of them"
            name = self.purpose.name
            raise SpecError(f"a {name} takes exactly one of keys, filters and region; {what} was given")
        if self.column is not None and self.keys is None:
            raise SpecError(f"column: {self.column!r} says what keys are of, and no keys are given")

    @property
    def text(self) -> str:
        """The choice in words, of at most `MOST_TEXT` letters."""
        if self.filters is not None:
            told = f"filters: {self.filters}"
        elif self.region is not None:
            told = f"region: {self.region}"
        else:
            told = f"keys: {len(self.keys)} given" if hasattr(self.keys, "__len__") else "keys"
        return told if len(told) <= MOST_TEXT else told[: MOST_TEXT - 3] + "..."

    def find(self, storage: Storage, metadata: CatalogMetadata, most: int) -> FoundRows:
        """The rows of a version that are chosen.

        Parameters
        ----------
        storage : Storage
            At the catalog's root.
        metadata : CatalogMetadata
        most : int
            Most rows; those beyond are counted, and then refused.

        Raises
        ------
        SpecError
            There are more.
        SchemaMismatchError, FilterError, RegionError
            As of `Catalog.read`; or keys are not of the type of their columns.
        InputError
            A key is null.
        IndexMissingError
            Mode append: the column of the keys has no index.
        """
        self.check()
        if metadata.key_records is not None:
            return self._of_records(storage, metadata, metadata.key_records, most)
        inside = None
        if self.keys is None:
            selection = select(metadata, list(ROW_IDENTITY), self.filters, None, self._region())
        else:
            column = self._indexed_column(metadata)
            field = joined_schema(metadata).field(column)
            keys = key_table(self.keys, pa.schema([field]))
            inside, wanted = find_values(storage, metadata, column, keys[column])
            selection = select(metadata, [*ROW_IDENTITY, column], InArray(column, wanted))
        tables = read_parts(storage, metadata, selection, inside)
        rows = self._at_most(tables, selection.schema, most, metadata)
        if self.keys is None:
            return FoundRows(rows)
        return FoundRows(rows.select(ROW_IDENTITY), _count(keys[column]) - _count(rows[column]))

    def _of_records(
        self, storage: Storage, metadata: CatalogMetadata, known: KeyRecords, most: int
    ) -> FoundRows:
        """Mode upsert: rows with their keys, as records have them."""
        if self.column is not None:
            raise SpecError(
                f"column: the keys of catalog {metadata.catalog} are of {', '.join(known.key)}, as its spec "
                "says; leave column out"
            )
        joined = joined_schema(metadata)
        schema = records_schema(joined, known.key, known.order_by)
        by = key_of(schema)
        if self.keys is not None:
            given = key_table(self.keys, pa.schema([joined.field(name) for name in by.names]))
            plain = pa.table(
                [as_plain(given[name], kind) for name, kind in zip(by.names, by.types, strict=True)],
                schema=by.schema,
            )
            standing = lookup(storage, known.runs, schema, plain)
            won = winning(standing, RecordOrder.of(metadata, metadata.all_increments(storage)))
            found = won.filter(pc.invert(won[DELETE_COLUMN]))
            (codes,) = by.ranks(plain)
            self._check_number(found.num_rows, most, metadata)
            return FoundRows(found, len(np.unique(codes)) - found.num_rows)
        columns = [*known.key, *([known.order_by] if known.order_by is not None else []), *ROW_IDENTITY]
        selection = select(metadata, list(dict.fromkeys(columns)), self.filters, None, self._region())
        records = (
            as_records(
                rows,
                schema,
                known.order_by,
                row=rows[ROW_COLUMN].to_numpy(),
                h29=rows[HEALPIX_COLUMN].to_numpy(),
                delete=np.zeros(rows.num_rows, bool),
            )
            for rows in read_parts(storage, metadata, selection, None)
        )
        return FoundRows(self._at_most(records, schema, most, metadata))

    def _region(self) -> Region | None:
        return None if self.region is None else region_of(self.region)

    def _indexed_column(self, metadata: CatalogMetadata) -> str:
        if self.column is not None:
            return self.column
        indexed = metadata.indexed_columns
        if len(indexed) != 1:
            known = ", ".join(indexed) or "none"
            raise SpecError(
                f"catalog {metadata.catalog} has no key; name an indexed column that the keys are of "
                f"(column), of {known}, or give filters"
            )
        return indexed[0]

    def _at_most(
        self, tables: Iterable[pa.Table], schema: pa.Schema, most: int, metadata: CatalogMetadata
    ) -> pa.Table:
        found, rows = [schema.empty_table()], 0
        for table in tables:
            rows += table.num_rows
            if rows <= most:
                found.append(table)
            else:
                found.clear()
        self._check_number(rows, most, metadata)
        return pa.concat_tables(found)

    def _check_number(self, rows: int, most: int, metadata: CatalogMetadata) -> None:
        if rows <= most:
            return
        purpose = self.purpose
        if most == purpose.most:
            raise SpecError(
                f"{rows} rows of {metadata.catalog} would be {purpose.done}, and one {purpose.name} takes "
                f"{most} at most; choose them in parts, by regions"
            )
        raise SpecError(
            f"{rows} of the {metadata.total_rows} rows of {metadata.catalog}, version {metadata.version}, "
            f"would be {purpose.done}, and max_fraction lets {most} pass; nothing is changed. Choose fewer "
            "rows, raise max_fraction, or give force"
        )


def _count(column: pa.ChunkedArray) -> int:
    return len(pc.unique(column))


def key_table(keys: Any, schema: pa.Schema) -> pa.Table:
    """Keys as columns of the catalog's types.

    Raises
    ------
    SchemaMismatchError
        They are of other columns or types.
    InputError
        One is null.
    """
    names = ", ".join(schema.names)
    columns = _columns(keys, schema.names)
    if columns is None:
        raise SchemaMismatchError(
            f"keys: {type(keys).__name__} has no columns {names}; give a table, a mapping of columns, or for "
            "each row a tuple"
        )
    found = []
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        found.append(_column(columns[field.name], kind, field.name))
    lengths = {len(column) for column in found}
    if len(lengths) > 1:
        raise SchemaMismatchError(f"keys: the columns {names} have {sorted(lengths)} values each")
    types = [column.type for column in found]
    return pa.table(found, schema=pa.schema(list(zip(schema.names, types, strict=True))))


def _columns(keys: Any, names: Sequence[str]) -> Mapping[str, Any] | None:
    """The columns of keys by their names; None where they are not such."""
    if isinstance(keys, pa.Table | pa.RecordBatch):
        present = keys.schema.names
        return {name: keys[name] for name in names} if set(names) <= set(present) else None
    if hasattr(keys, "columns") and hasattr(keys, "iloc"):  # pandas
        return {name: keys[name] for name in names} if set(names) <= set(keys.columns) else None
    if isinstance(keys, Mapping):
        return {name: keys[name] for name in names} if set(names) <= set(keys) else None
    if isinstance(keys, str | bytes):  # a sequence of letters
        return None
    if len(names) == 1:
        return {names[0]: keys}
    listed = list(keys)
    if all(isinstance(key, Mapping) and set(names) <= set(key) for key in listed):
        return {name: [key[name] for key in listed] for name in names}
    if all(isinstance(key, list | tuple) and len(key) == len(names) for key in listed):
        return {name: [key[at] for key in listed] for at, name in enumerate(names)}
    return None


def _column(values: Any, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    try:
        column = _array(values, kind)
        given = column.type
        if not (pa.types.is_null(given) or _family(given) in (_family(kind), "text")):
            raise pa.ArrowInvalid(f"they are {given}")
        column = column.cast(kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise SchemaMismatchError(
            f"keys: column {name!r} is of type {kind}, and not all of what was given is "
            f"({str(error).splitlines()[0]})"
        ) from None
    if column.null_count:
        raise InputError(
            f"keys: {column.null_count} of {len(column)} values of {name!r} are null; leave them out"
        )
    return column


def _family(kind: pa.DataType) -> str:
    """Types that stand for each other in keys; a text stands for what it says."""
    families = {
        "text": (kinds.is_string, kinds.is_large_string, kinds.is_string_view),
        "bytes": (kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary),
        "whole number": (kinds.is_integer,),
        "time": (kinds.is_date, kinds.is_time, kinds.is_timestamp),
    }
    return next((name for name, tests in families.items() if any(is_a(kind) for is_a in tests)), str(kind))


def _array(values: Any, kind: pa.DataType) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        column = values
    elif isinstance(values, pa.Array):
        column = pa.chunked_array([values])
    elif getattr(values, "ndim", None) is not None:  # of numpy and pandas
        column = pa.chunked_array([pa.array(values)])
    else:
        listed: Iterator[Any] | list[Any] = list(values)
        try:
            column = pa.chunked_array([pa.array(listed)])
        except OverflowError:
            column = pa.chunked_array([pa.array(listed, kind)])
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
