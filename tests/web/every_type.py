"""Columns of every Arrow type that Parquet holds, with nulls, ends of their range and values in between."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

SIMPLE = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal32(5, 2), pa.decimal64(12, 3), pa.decimal128(20, 4), pa.decimal256(50, 2)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp("ns", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ms", "+05:30")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3)),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.binary())),
)
NESTED = (
    pa.list_(pa.float64()),
    pa.list_(pa.int32(), 2),
    pa.large_list(pa.string()),
    pa.list_(pa.time64("ns")),
    pa.struct([("when", pa.timestamp("ns")), ("n", pa.int64()), ("raw", pa.binary())]),
    pa.list_(pa.struct([("t", pa.duration("ns")), ("v", pa.list_(pa.float32()))])),
    pa.list_(
        pa.struct([("half", pa.float16()), ("small", pa.decimal32(5, 2)), ("when", pa.timestamp("ns"))])
    ),
    pa.map_(pa.string(), pa.timestamp("us", "UTC")),
)
_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def column_of(kind: pa.DataType, rows: int, rng: np.random.Generator) -> pa.Array:
    """So many values of a type, some of them null."""
    if kinds.is_dictionary(kind):
        return column_of(kind.value_type, rows, rng).dictionary_encode()
    return pa.array([_value(kind, rng) for _ in range(rows)], kind)


def _value(kind: pa.DataType, rng: np.random.Generator) -> Any:
    if rng.random() < 0.15:
        return None
    if kinds.is_struct(kind):
        return {field.name: _value(field.type, rng) for field in kind}
    if kinds.is_map(kind):
        return [(f"k{at}", _value(kind.item_type, rng)) for at in range(rng.integers(0, 3))]
    if kinds.is_nested(kind):
        length = kind.list_size if kinds.is_fixed_size_list(kind) else rng.integers(0, 4)
        return [_value(kind.value_type, rng) for _ in range(length)]
    if kinds.is_boolean(kind):
        return bool(rng.integers(2))
    if kinds.is_floating(kind):
        far = [float("nan"), float("inf"), float("-inf"), -0.0]
        return np.float16(rng.choice([*far, *rng.normal(0, 100, 20)])).item()
    if kinds.is_decimal(kind):
        digits = int(rng.integers(-(10 ** min(kind.precision, 18)) + 1, 10 ** min(kind.precision, 18)))
        return Decimal(digits).scaleb(-kind.scale)
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return str(rng.choice(["", "a", "é<&>", 'with "quotes", commas', "two\nlines", " NaN "]))
    if kinds.is_fixed_size_binary(kind):
        return rng.bytes(kind.byte_width)
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return rng.bytes(int(rng.integers(0, 5)))
    low, high = _range(kind)
    between = rng.integers(low, high, 6, dtype="u8" if low == 0 else "i8").tolist()
    number = [low, high, *between][rng.integers(8)]
    if kinds.is_integer(kind):
        return number
    if kinds.is_date64(kind):
        number = number // (1000 * _DAY) * 1000 * _DAY
    return pa.array([number], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)[0]


def _range(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest number that stands for a value; of times, within the years 1 to 9999."""
    if kinds.is_integer(kind):
        bits = kind.bit_width
        return (
            (0, 2**bits - 1) if kinds.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
    years = np.array(["0001-01-02", "9999-12-30"], "M8[D]").astype("i8").tolist()
    if kinds.is_date32(kind):
        return years[0], years[1]
    per_second = 1000 if kinds.is_date64(kind) else _PER_SECOND[kind.unit]
    if kinds.is_time(kind):
        return 0, _DAY * per_second - 1
    if kinds.is_duration(kind):
        return -(2**63), 2**63 - 1
    return tuple(int(np.clip(year * _DAY * per_second, -(2**63) + 1, 2**63 - 1)) for year in years)  # type: ignore[return-value]
