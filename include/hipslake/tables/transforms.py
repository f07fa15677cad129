"""Partition values of whole columns: every transform of the Iceberg spec, on Arrow arrays.

A null's value is null, for every transform. Times are taken in UTC; periods are counted from 1970 and rounded
down, also before it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import SpecError
from hipslake.specs.partition_fields import PartitionField, TransformName
from hipslake.sphere.pixels import MAX_ORDER
from hipslake.tables.murmur import murmur3_bytes, murmur3_int64
from hipslake.tables.wide import big_endian, minus, remainder, to_decimals, unscaled

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NUMPY_UNITS = {TransformName.YEAR: "Y", TransformName.MONTH: "M"}
_TABLE_DAYS = 1 << 17  # some centuries
_WHAT = {
    TransformName.BUCKET: "whole numbers, decimals, dates, times, timestamps, strings, bytes and UUIDs",
    TransformName.TRUNCATE: "whole numbers, decimals, strings and bytes",
    TransformName.YEAR: "dates and timestamps",
    TransformName.MONTH: "dates and timestamps",
    TransformName.DAY: "dates and timestamps",
    TransformName.HOUR: "timestamps",
    TransformName.HEALPIX: "pixels of order 29, as 64-bit numbers",
    TransformName.IDENTITY: "columns of single values, not lists or structs",
}


def partition_values(field: PartitionField, column: pa.Array) -> pa.Array:
    """The partition values of a column, of the type that `result_type` says.

    Parameters
    ----------
    field : PartitionField
        For `healpix`, the column is `_healpix_29`.
    column : pyarrow.Array

    Raises
    ------
    SpecError
        The transform has no meaning for the column's type.
    """
    kind = result_type(field, column.type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if field.transform is TransformName.VOID:
        return pa.nulls(len(column), kind)
    if field.transform is TransformName.IDENTITY:
        return column
    return _APPLY[field.transform](column, field.parameter or 0).cast(kind)


def result_type(field: PartitionField, column: pa.DataType) -> pa.DataType:
    """The Arrow type of the partition values of a column.

    Raises
    ------
    SpecError
        The transform has no meaning for the column's type.
    """
    if pa.types.is_dictionary(column):
        column = column.value_type
    if not _takes(field.transform, column):
        raise SpecError(
            f"partition: {field}: column {field.source!r} is of type {column}; {field.transform} is for "
            f"{_WHAT.get(field.transform, 'any column')}"
        )
    if field.transform is TransformName.DAY:
        return pa.date32()
    if field.transform is TransformName.HEALPIX:
        # Orders up to 13 have less than 2^31 pixels.
        return pa.int32() if (field.parameter or 0) <= 13 else pa.int64()
    if field.transform is TransformName.BUCKET or field.transform.is_time:
        return pa.int32()
    return column


def is_hashable(kind: pa.DataType) -> bool:
    """Whether values of a type have a hash: those that can be put into buckets."""
    return _takes(TransformName.BUCKET, kind)


def _takes(name: TransformName, kind: pa.DataType) -> bool:
    stamp = pa.types.is_timestamp(kind)
    date = pa.types.is_date(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    whole = pa.types.is_integer(kind)
    decimal = pa.types.is_decimal128(kind) or pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind)
    match name:
        case TransformName.VOID:
            return True
        case TransformName.IDENTITY:
            return not pa.types.is_nested(kind)
        case TransformName.HEALPIX:
            return kind == pa.int64()
        case TransformName.HOUR:
            return stamp
        case TransformName.YEAR | TransformName.MONTH | TransformName.DAY:
            return stamp or date
        case TransformName.TRUNCATE:
            return whole or decimal or text or binary
        case TransformName.BUCKET:
            fixed = pa.types.is_fixed_size_binary(kind) or kind == pa.uuid()
            return whole or decimal or text or binary or fixed or date or stamp or pa.types.is_time(kind)


def _bucket(column: pa.Array, count: int) -> pa.Array:
    hashes = hash_values(column)
    buckets = ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)
    return pa.array(buckets, mask=_nulls(column))


def hash_values(column: pa.Array) -> NDArray[np.uint32]:
    """The hash of each value that buckets are made of, uint32[n]; at nulls, of anything."""
    kind = column.type
    if kind == pa.uuid():
        return hash_values(column.storage)
    if pa.types.is_decimal(kind):
        return murmur3_bytes(*big_endian(unscaled(_decimal128(column))))
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        data = np.frombuffer(column.buffers()[1], np.uint8)
        starts = (column.offset + np.arange(len(column), dtype=np.int64)) * width
        return murmur3_bytes(data, starts, np.full(len(column), width, np.int64))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hashes_of_bytes(column, np.int32)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _hashes_of_bytes(column, np.int64)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return murmur3_int64(_in_units(_numbers(column), _PER_SECOND[kind.unit], 10**6))
    if pa.types.is_date(kind):
        return murmur3_int64(_days(column))
    return murmur3_int64(_numbers(column))


def _hashes_of_bytes(column: pa.Array, offset_type: type[np.integer]) -> NDArray[np.uint32]:
    _, offsets, data = column.buffers()
    size = np.dtype(offset_type).itemsize
    bounds = np.frombuffer(offsets, offset_type, len(column) + 1, size * column.offset).astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    first, last = int(bounds[0]), int(bounds[-1])  # a slice need not carry the bytes of the whole
    return murmur3_bytes(content[first:last], bounds[:-1] - first, np.diff(bounds))


def _truncate(column: pa.Array, width: int) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)  # Arrow's code units are Unicode code points
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.binary_slice(column, 0, width)
    if pa.types.is_decimal(kind):
        values = _decimal128(column)
        wide = unscaled(values)
        return to_decimals(minus(wide, remainder(wide, width)), values).cast(kind)
    numbers = _numbers(column)
    return pa.array(numbers - numbers % width, mask=_nulls(column))


def _period(name: TransformName) -> Callable[[pa.Array, int], pa.Array]:
    def count(column: pa.Array, _: int) -> pa.Array:
        days = _days(column)
        if name in _NUMPY_UNITS:
            days = _in_calendar(days, _NUMPY_UNITS[name])
        return pa.array(days.astype(np.int32), mask=_nulls(column))

    return count


def _in_calendar(days: NDArray[np.int64], unit: str) -> NDArray[np.int64]:
    """Days since 1970 as years (Y) or months (M) since then."""
    low, high = (int(days.min()), int(days.max())) if len(days) else (0, 0)
    if high - low >= min(len(days), _TABLE_DAYS):
        return days.astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64)
    # The calendar is asked once for each day, and not for each row.
    found: NDArray[np.int64] = _in_calendar_of(low, high, unit).take(days - low)
    return found


def _in_calendar_of(low: int, high: int, unit: str) -> NDArray[np.int64]:
    between = np.arange(low, high + 1).astype("datetime64[D]")
    return between.astype(f"datetime64[{unit}]").astype(np.int64)


def _hour(column: pa.Array, _: int) -> pa.Array:
    hours = _numbers(column) // (3600 * _PER_SECOND[column.type.unit])
    return pa.array(hours.astype(np.int32), mask=_nulls(column))


def _healpix(column: pa.Array, order: int) -> pa.Array:
    return pa.array(_numbers(column) >> (2 * (MAX_ORDER - order)), mask=_nulls(column))


_APPLY: dict[TransformName, Callable[[pa.Array, int], pa.Array]] = {
    TransformName.BUCKET: _bucket,
    TransformName.TRUNCATE: _truncate,
    TransformName.YEAR: _period(TransformName.YEAR),
    TransformName.MONTH: _period(TransformName.MONTH),
    TransformName.DAY: _period(TransformName.DAY),
    TransformName.HOUR: _hour,
    TransformName.HEALPIX: _healpix,
}


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    """Numbers, or times as numbers in their unit; 0 at nulls."""
    kind = column.type
    if not pa.types.is_integer(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if column.null_count:
        column = column.fill_null(0)
    numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _days(column: pa.Array) -> NDArray[np.int64]:
    numbers, kind = _numbers(column), column.type
    if pa.types.is_date32(kind):
        return numbers
    per_second = 1000 if pa.types.is_date64(kind) else _PER_SECOND[kind.unit]
    return numbers // (86_400 * per_second)


def _in_units(numbers: NDArray[np.int64], per_second: int, wanted: int) -> NDArray[np.int64]:
    return numbers * (wanted // per_second) if per_second <= wanted else numbers // (per_second // wanted)


def _decimal128(column: pa.Array) -> pa.Array:
    if pa.types.is_decimal128(column.type):
        return column
    return column.cast(pa.decimal128(column.type.precision, column.type.scale))


def _nulls(column: pa.Array) -> NDArray[np.bool_] | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
