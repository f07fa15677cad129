"""Values of columns as bytes: Iceberg's binary single-value serialization, of whole columns.

The bytes of each type are those of the table specification's appendix D. Not-a-number has one form here, that
of Java's `Float.NaN` and `Double.NaN`, so that all of them are one value; -0.0 and 0.0 have different bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_DECIMAL_BYTES = 16


class PackedValues(NamedTuple):
    """Values as strings of bytes that lie in one buffer.

    Attributes
    ----------
    data : uint8[m]
    starts, lengths : int64[n]
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


def single_values(values: pa.Array) -> PackedValues:
    """The values of a column that are not null, in their order.

    Parameters
    ----------
    values : pyarrow.Array
        Of a primitive type as tables of Iceberg keep it.
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    values = values.drop_null()
    kind = values.type
    if pa.types.is_boolean(kind):
        return _of_width(values.cast(pa.uint8()), np.dtype("<u1"))
    if pa.types.is_floating(kind):
        numbers = _numbers(values, np.dtype(f"<f{kind.bit_width // 8}")).copy()
        numbers[np.isnan(numbers)] = np.nan
        return _apart(numbers)
    if pa.types.is_decimal(kind):
        return _of_decimals(values)
    if pa.types.is_fixed_size_binary(kind):
        return _of_width(values, np.dtype(f"V{kind.byte_width}"))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_texts(values, np.dtype("<i4"))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _of_texts(values, np.dtype("<i8"))
    return _of_width(values, np.dtype(f"<i{kind.bit_width // 8}"))  # whole numbers, dates and times


def _numbers(values: pa.Array, kind: np.dtype) -> NDArray:  # type: ignore[type-arg]
    data = values.buffers()[1]
    if data is None or not len(values):
        return np.zeros(0, kind)
    found: NDArray = np.frombuffer(data, kind, len(values), values.offset * kind.itemsize)  # type: ignore[type-arg]
    return found


def _of_width(values: pa.Array, kind: np.dtype) -> PackedValues:  # type: ignore[type-arg]
    return _apart(_numbers(values, kind))


def _apart(numbers: NDArray) -> PackedValues:  # type: ignore[type-arg]
    width = numbers.dtype.itemsize
    starts = np.arange(len(numbers), dtype=np.int64) * width
    return PackedValues(
        np.frombuffer(numbers.tobytes(), np.uint8), starts, np.full(len(numbers), width, np.int64)
    )


def _of_texts(values: pa.Array, offset: np.dtype) -> PackedValues:  # type: ignore[type-arg]
    _, offsets, data = values.buffers()
    if not len(values):
        return PackedValues(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
    ends = np.frombuffer(offsets, offset, len(values) + 1, values.offset * offset.itemsize).astype(np.int64)
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    # Of a slice, only what lies in it.
    return PackedValues(content[ends[0] : ends[-1]], ends[:-1] - ends[0], np.diff(ends))


def _of_decimals(values: pa.Array) -> PackedValues:
    """The unscaled numbers: two's complement, big-endian, in as few bytes as hold the sign too."""
    kind = values.type
    if kind.bit_width != 8 * _DECIMAL_BYTES:
        values = values.cast(pa.decimal128(kind.precision, kind.scale))
    stored = _numbers(values, np.dtype(f"V{_DECIMAL_BYTES}"))
    digits = np.frombuffer(stored.tobytes(), np.uint8).reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = digits[:, :1] >> 7
    spare = (digits[:, :-1] == sign * np.uint8(255)) & (digits[:, 1:] >> 7 == sign)
    left_out = np.cumprod(spare, axis=1, dtype=np.int64).sum(axis=1)
    starts = np.arange(len(digits), dtype=np.int64) * _DECIMAL_BYTES + left_out
    return PackedValues(np.ascontiguousarray(digits).reshape(-1), starts, _DECIMAL_BYTES - left_out)
