"""Columns in types that Arrow sorts and compares, with the values in the same order."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

from hipslake.engine.reordering import wide_decimals

_VIEWED = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a column: of dictionaries, that of their entries."""
    return value_type(kind.value_type) if kinds.is_dictionary(kind) else kind


def has_order(kind: pa.DataType) -> bool:
    """Whether people put values of a type in order: numbers, times, durations and texts."""
    kind = value_type(kind)
    ordered = (kinds.is_integer, kinds.is_floating, kinds.is_decimal, kinds.is_temporal)
    texts = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    return any(is_one(kind) for is_one in (*ordered, *texts)) and not kinds.is_interval(kind)


def comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as one of a type that Arrow sorts and compares, where there is such a type.

    Times and durations become whole numbers of their unit, half-precision numbers single ones, small decimals
    those of 128 bits. Whatever else there is stays as it is.

    Examples
    --------
    >>> comparable(pa.chunked_array([[2, 1]], pa.duration("ns"))).type
    DataType(int64)
    """
    kind = value_type(column.type)
    if kind != column.type:
        column = column.cast(kind)
    if kinds.is_temporal(kind) and not kinds.is_interval(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.chunked_array([chunk.view(whole) for chunk in column.chunks], whole)
    if kinds.is_float16(kind):
        return column.cast(pa.float32())
    return column.cast(_VIEWED[kind]) if kind in _VIEWED else wide_decimals(column)
