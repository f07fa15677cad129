"""Widening: numpy is the oracle for numbers; whatever widens holds its values exactly."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hipslake.sources.widening import widen, with_joint_dictionaries

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]


@pytest.mark.parametrize(("a", "b"), list(product(INTEGERS + FLOATS, repeat=2)))
def test_numbers_widen_as_in_numpy_wherever_that_is_exact(a: pa.DataType, b: pa.DataType) -> None:
    expected = np.promote_types(a.to_pandas_dtype(), b.to_pandas_dtype())
    both_integers = pa.types.is_integer(a) and pa.types.is_integer(b)
    found = widen(a, b)
    if both_integers and expected.kind == "f":  # int64 with uint64: numpy takes a float that loses digits
        assert found is None
    elif both_integers or (pa.types.is_floating(a) and pa.types.is_floating(b)):
        assert found == pa.from_numpy_dtype(expected)
    else:
        assert found is not None
        assert pa.types.is_floating(found)
        assert found.bit_width >= min(np.dtype(expected).itemsize * 8, 64)


STRICT_PAIR = pa.list_(pa.field("item", pa.int8(), nullable=False), 2)


@pytest.mark.parametrize(
    ("a", "b", "wide"),
    [
        (pa.null(), pa.list_(pa.int8()), pa.list_(pa.int8())),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.binary(), pa.large_binary(), pa.large_binary()),
        (pa.string(), pa.binary(), None),
        (pa.string(), pa.int8(), None),
        (pa.bool_(), pa.int8(), None),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), pa.decimal128(12, 4)),
        (pa.decimal128(10, 2), pa.decimal128(9, 4), pa.decimal128(12, 4)),
        (pa.decimal128(4, 2), pa.int32(), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.float64(), None),
        (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), pa.timestamp("ns", "UTC")),
        (pa.timestamp("s"), pa.timestamp("s", "UTC"), None),
        (pa.timestamp("s"), pa.date32(), None),
        (pa.timestamp("s"), pa.int64(), None),
        (pa.date32(), pa.date64(), pa.date64()),
        (pa.time32("s"), pa.time64("us"), pa.time64("us")),
        (pa.list_(pa.int8()), pa.list_(pa.float32()), pa.list_(pa.float32())),
        (pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.large_list(pa.int8())),
        (pa.list_(pa.int8()), pa.list_(pa.string()), None),
        (pa.list_(pa.int8(), 2), pa.list_(pa.int16(), 2), pa.list_(pa.int16(), 2)),
        (pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3), None),
        (STRICT_PAIR, pa.list_(pa.int16(), 2), pa.list_(pa.int16(), 2)),
        (
            pa.struct([("a", pa.int8()), ("b", pa.string())]),
            pa.struct([("b", pa.string()), ("a", pa.int16())]),
            pa.struct([("a", pa.int16()), ("b", pa.string())]),
        ),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.int8())]), None),
        (
            pa.dictionary(pa.int8(), pa.string()),
            pa.dictionary(pa.int32(), pa.string()),
            pa.dictionary(pa.int32(), pa.string()),
        ),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.large_string()),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), pa.list_(pa.string()), pa.list_(pa.string())),
        (pa.dictionary(pa.int8(), pa.string()), pa.int8(), None),
        (pa.binary(), pa.binary_view(), pa.binary()),
        (pa.uuid(), pa.binary(16), None),
        (pa.uuid(), pa.uuid(), pa.uuid()),
    ],
)
def test_types_widen_both_ways(a: pa.DataType, b: pa.DataType, wide: pa.DataType | None) -> None:
    assert widen(a, b) == wide
    if not (wide is not None and pa.types.is_struct(wide)):  # a struct keeps the order of the first
        assert widen(b, a) == wide
    for narrow in (a, b):
        if wide is not None:
            assert pa.nulls(1, narrow).cast(wide).type == wide


def test_types_are_rewritten_without_touching_what_they_say_of_nulls() -> None:
    strict = pa.map_(pa.string(), pa.field("value", pa.dictionary(pa.int8(), pa.string()), nullable=False))
    joint = with_joint_dictionaries(strict)
    assert joint.item_type == pa.dictionary(pa.int32(), pa.string())
    assert not joint.item_field.nullable
