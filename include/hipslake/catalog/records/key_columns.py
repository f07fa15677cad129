"""Key columns: their types in record files, the order of their values, and values as texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.value_order import comparable, value_type
from hipslake.engine.reordering import in_order
from hipslake.errors import CatalogFormatError, SchemaMismatchError

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAYS = "d"
_NUMBERS = "0123456789-"


class KeyColumns(NamedTuple):
    """The columns that files are sorted by, first the one that counts most.

    Attributes
    ----------
    names : tuple of str
    types : tuple of pyarrow.DataType
        As `plain_key_type` has them.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]

    @classmethod
    def of(cls, schema: pa.Schema, key: Sequence[str]) -> KeyColumns:
        """The key of rows.

        Parameters
        ----------
        schema : pyarrow.Schema
            Of the source, or of the catalog.
        key : sequence of str
            Names of its columns.

        Raises
        ------
        SchemaMismatchError
            One is missing, or of a type that no key has.
        """
        if missing := [name for name in key if name not in schema.names]:
            raise SchemaMismatchError(
                f"key: there is no column {', '.join(map(repr, missing))}; there are "
                + ", ".join(schema.names)
            )
        return cls(tuple(key), tuple(plain_key_type(schema.field(name)) for name in key))

    @property
    def schema(self) -> pa.Schema:
        """Of the key columns alone."""
        return pa.schema(
            [pa.field(*each, nullable=False) for each in zip(self.names, self.types, strict=True)]
        )

    def ranks(self, *tables: pa.Table) -> list[NDArray[np.int64]]:
        """Numbers that have the order of the keys, of several tables together: equal ones for equal keys.

        Parameters
        ----------
        *tables : pyarrow.Table
            With the key columns in their plain types, without nulls.

        Returns
        -------
        list of int64[n]
            From 0 on, without gaps; for each table.

        Examples
        --------
        >>> by = KeyColumns(("id",), (pa.int64(),))
        >>> [ranks.tolist() for ranks in by.ranks(pa.table({"id": [30, 10]}), pa.table({"id": [20, 30]}))]
        [[2, 0], [1, 2]]
        """
        codes = np.zeros(sum(table.num_rows for table in tables), np.int64)
        for name, kind in zip(self.names, self.types, strict=True):
            chunks = [chunk for table in tables for chunk in table[name].chunks]
            part = value_ranks(pa.chunked_array(chunks, kind))
            spread = codes * (int(part.max(initial=0)) + 1) + part
            codes = part if len(self.names) == 1 else np.unique(spread, return_inverse=True)[1]
        return np.split(codes, np.cumsum([table.num_rows for table in tables])[:-1])

    def in_order(self, table: pa.Table) -> pa.Table:
        """A table sorted by key, and by `_row` where it has one."""
        (codes,) = self.ranks(table)
        by: tuple[NDArray[np.int64], ...] = (codes,)
        if ROW_COLUMN in table.column_names and ROW_COLUMN not in self.names:
            by = (table[ROW_COLUMN].to_numpy(), codes)
        return in_order(table, np.lexsort(by))

    def texts(self, table: pa.Table) -> list[tuple[str, ...]]:
        """The keys of some rows, a text for each column; `from_texts` takes them back."""
        columns = [_texts(table[name].combine_chunks()) for name in self.names]
        return list(zip(*columns, strict=True))

    def from_texts(self, keys: Sequence[Sequence[str]]) -> pa.Table:
        """Keys that `texts` gave, also of columns of narrower types than those of now.

        Raises
        ------
        CatalogFormatError
            One is no value of its column.
        """
        columns = []
        for at, kind in enumerate(self.types):
            given = [key[at] if at < len(key) else "" for key in keys]
            try:
                columns.append(_values(given, kind))
            except (pa.ArrowException, ValueError) as error:
                raise CatalogFormatError(
                    f"metadata: the key column {self.names[at]!r} is {kind}, and a file is said to begin or "
                    f"end at what is none ({error})"
                ) from error
        return pa.table(columns, schema=self.schema)


def plain_key_type(field: pa.Field) -> pa.DataType:
    """The type that a key column has in record files: one for all integers, one for all texts.

    So a column that is given a wider type has its files in it already.

    Raises
    ------
    SchemaMismatchError
        It holds fractions or lists, of which equality says little.
    """
    kind = value_type(field.type)
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    exact = (kinds.is_date, kinds.is_time, kinds.is_timestamp, kinds.is_decimal, kinds.is_boolean)
    if not (kinds.is_integer(kind) or _is_text(kind) or _is_bytes(kind) or any(is_a(kind) for is_a in exact)):
        raise SchemaMismatchError(
            f"key: column {field.name!r} is of type {field.type}; a key holds whole numbers, strings, truth "
            "values, dates, times, decimals, UUIDs or bytes"
        )
    return _plain(kind)


def plain_order_type(field: pa.Field) -> pa.DataType:
    """The type that the column of `order_by` has in record files.

    Raises
    ------
    SchemaMismatchError
        Its values have no order.
    """
    kind = value_type(field.type)
    numbers = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)
    times = kinds.is_temporal(kind) and not kinds.is_interval(kind)
    if not (times or _is_text(kind) or any(is_a(kind) for is_a in numbers)):
        raise SchemaMismatchError(
            f"order_by: column {field.name!r} is of type {field.type}; take one of numbers, times or texts"
        )
    return pa.float64() if kinds.is_floating(kind) else _plain(kind)


def as_plain(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column of rows in its plain type."""
    whole = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if kinds.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    if isinstance(whole.type, pa.BaseExtensionType):
        whole = pa.chunked_array([chunk.storage for chunk in whole.chunks], whole.type.storage_type)
    if kinds.is_fixed_size_binary(whole.type):
        whole = whole.cast(pa.binary())
    return whole.cast(kind)


def value_ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Numbers that have the order of the values of a column, int64[n]: equal for equal ones, without gaps.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        In a plain type, without nulls.
    """
    sortable = comparable(column).combine_chunks()
    if kinds.is_integer(sortable.type) or kinds.is_floating(sortable.type):
        return np.unique(sortable.to_numpy(zero_copy_only=False), return_inverse=True)[1].astype(np.int64)
    words = sortable.dictionary_encode()
    place = np.empty(len(words.dictionary), np.int64)
    place[pc.sort_indices(words.dictionary).to_numpy()] = np.arange(len(place))
    return place[words.indices.to_numpy()]


def _plain(kind: pa.DataType) -> pa.DataType:
    if kinds.is_uint64(kind):  # half of them are no int64
        return kind
    if kinds.is_integer(kind):
        return pa.int64()
    if _is_text(kind):
        return pa.large_string()
    if _is_bytes(kind):
        return pa.large_binary()
    if kinds.is_date(kind):
        return pa.date32()
    if kinds.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    fixed = kinds.is_fixed_size_binary(kind) and not kinds.is_decimal(kind)
    return bool(fixed or kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind))


def _texts(column: pa.Array) -> list[str]:
    kind = column.type
    if kinds.is_temporal(kind):
        unit = _DAYS if kinds.is_date(kind) else kind.unit
        numbers = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        return [f"{number}{unit}" for number in numbers.to_pylist()]
    if _is_bytes(kind):
        return [value.hex() for value in column.to_pylist()]
    texts: list[str] = column.cast(pa.string()).to_pylist()
    return texts


def _values(texts: Sequence[str], kind: pa.DataType) -> pa.Array:
    if kinds.is_temporal(kind):
        return (
            pa.array([_count(text, kind) for text in texts], pa.int64())
            .cast(pa.int32() if kind.bit_width == 32 else pa.int64())
            .view(kind)
        )
    if _is_bytes(kind):
        return pa.array([bytes.fromhex(text) for text in texts], kind)
    return pa.array(texts, pa.string()).cast(kind)


def _count(text: str, kind: Any) -> int:
    """A time as a number in the unit of a type; texts have a number, and the unit that the type had."""
    unit = text.lstrip(_NUMBERS)
    number = int(text[: len(text) - len(unit)])
    if kinds.is_date(kind):
        if unit != _DAYS:
            raise ValueError(f"{text!r} is no date")
        return number
    if unit not in _PER_SECOND or _PER_SECOND[unit] > _PER_SECOND[kind.unit]:
        raise ValueError(f"{text!r} is no time in {kind.unit}")
    return number * (_PER_SECOND[kind.unit] // _PER_SECOND[unit])
