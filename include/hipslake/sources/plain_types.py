"""Casts of foreign tables to types that Parquet stores and that Arrow gathers, sorts and compares."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hipslake.errors import SchemaMismatchError
from hipslake.sources.widening import without_views


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values without views, run-end encoding and dictionaries of numbers.

    Examples
    --------
    >>> plain_type(pa.dictionary(pa.int8(), pa.int64()))
    DataType(int64)
    """
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        value = plain_type(kind.value_type)
        texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        return pa.dictionary(kind.index_type, value) if value in texts else value
    return without_views(kind)


def with_plain_types(table: pa.Table, where: str) -> pa.Table:
    """Return a table with the same values as columns of plain types.

    Nulls among the words of a dictionary, which Parquet cannot write, become nulls of the column.

    Parameters
    ----------
    table : pyarrow.Table
    where : str
        What the table is, for messages.

    Raises
    ------
    SchemaMismatchError
        A column has a type that no Parquet file holds.
    """
    columns = [
        _plain_column(column, field, where) for field, column in zip(table.schema, table.columns, strict=True)
    ]
    fields = [
        field if column.type.equals(field.type) else field.with_type(column.type)
        for field, column in zip(table.schema, columns, strict=True)
    ]
    return pa.table(columns, pa.schema(fields, table.schema.metadata))


def _plain_column(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    kind = plain_type(field.type)
    try:
        if not column.type.equals(kind) or _has_null_words(column):
            column = pa.chunked_array([_decoded(chunk) for chunk in column.chunks], _value_type(kind))
            column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field.with_type(column.type)])).close()
    except pa.ArrowException:
        raise SchemaMismatchError(
            f"{where}: column {field.name!r} is of type {field.type}, which is not stored; convert it, or "
            "leave it out"
        ) from None
    return column


def _decoded(chunk: pa.Array) -> pa.Array:
    """The values themselves, of plain types."""
    if pa.types.is_run_end_encoded(chunk.type):
        return _decoded(pc.run_end_decode(chunk))
    if pa.types.is_dictionary(chunk.type):
        return _decoded(chunk.dictionary).take(chunk.indices)
    return chunk.cast(plain_type(chunk.type))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _has_null_words(column: pa.ChunkedArray) -> bool:
    return pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks)
