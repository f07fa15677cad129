"""Partition values of whole columns are those of the Iceberg spec, and of pyiceberg value by value."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import healpy
import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import SpecError
from hipslake.specs.partition_fields import PartitionField, TransformName
from hipslake.tables.murmur import murmur3_bytes, murmur3_int64
from hipslake.tables.transforms import partition_values, result_type
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.transforms import parse_transform

INT = st.integers(-(2**31) + 1000, 2**31 - 1)
LONG = st.integers(-(2**63) + 1000, 2**63 - 1)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)  # years 1 to 9999
DAYS = st.integers(-719_162, 2_932_896)
NANOS = st.integers(-(2**63) + 1000, 2**63 - 1)
TEXT = st.text(max_size=20) | st.sampled_from(["", "ångström", "\u041c 31", "銀河", "🔭🌌", "é", "e\u0301"])


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    edges = [
        0,
        -1,
        127,
        128,
        -128,
        -129,
        32767,
        -32768,
        2**63,
        -(2**63),
        2**64,
        -(2**64),
        most,
        -most + 10**6,
    ]
    unscaled = st.integers(-most + 10**6, most) | st.sampled_from([e for e in edges if abs(e) <= most])
    return unscaled.map(
        lambda number: Decimal((int(number < 0), Decimal(abs(number)).as_tuple().digits, -scale))
    )


KINDS: dict[str, tuple[pa.DataType, Any, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), iceberg.IntegerType(), st.integers(-100, 127)),
    "int16": (pa.int16(), iceberg.IntegerType(), st.integers(-32000, 32767)),
    "int": (pa.int32(), iceberg.IntegerType(), INT),
    "long": (pa.int64(), iceberg.LongType(), LONG),
    "date": (pa.date32(), iceberg.DateType(), DAYS),
    "time": (pa.time64("us"), iceberg.TimeType(), st.integers(0, 86_399_999_999)),
    "timestamp": (pa.timestamp("us"), iceberg.TimestampType(), MICROS),
    "timestamptz": (pa.timestamp("us", tz="UTC"), iceberg.TimestamptzType(), MICROS),
    "timestamp in Tokyo": (pa.timestamp("us", tz="Asia/Tokyo"), iceberg.TimestamptzType(), MICROS),
    "timestamp_ns": (pa.timestamp("ns"), iceberg.TimestampNanoType(), NANOS),
    "timestamptz_ns": (pa.timestamp("ns", tz="UTC"), iceberg.TimestamptzNanoType(), NANOS),
    "string": (pa.string(), iceberg.StringType(), TEXT),
    "large_string": (pa.large_string(), iceberg.StringType(), TEXT),
    "binary": (pa.binary(), iceberg.BinaryType(), st.binary(max_size=20)),
    "large_binary": (pa.large_binary(), iceberg.BinaryType(), st.binary(max_size=20)),
    "fixed": (pa.binary(7), iceberg.FixedType(7), st.binary(min_size=7, max_size=7)),
    "uuid": (pa.uuid(), iceberg.UUIDType(), st.uuids().map(lambda value: value.bytes)),
    "decimal(9, 2)": (pa.decimal128(9, 2), iceberg.DecimalType(9, 2), decimals(9, 2)),
    "decimal(18, 0)": (pa.decimal128(18, 0), iceberg.DecimalType(18, 0), decimals(18, 0)),
    "decimal(38, 10)": (pa.decimal128(38, 10), iceberg.DecimalType(38, 10), decimals(38, 10)),
    "bool": (pa.bool_(), iceberg.BooleanType(), st.booleans()),
    "float": (pa.float32(), iceberg.FloatType(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), iceberg.DoubleType(), st.floats(allow_nan=False)),
}
TEXTS = [
    "identity",
    "bucket[16]",
    "bucket[1]",
    "truncate[10]",
    "truncate[1]",
    "year",
    "month",
    "day",
    "hour",
    "void",
]
PAIRS = [(text, kind) for text in TEXTS for kind in KINDS]


def field_of(transform: str) -> PartitionField:
    return PartitionField.parse(f"{transform}(x)")


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    if pa.types.is_temporal(kind):
        plain = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, plain).view(kind)
    return pa.array(values, kind)


def plain(array: pa.Array) -> list[Any]:
    """Values as pyiceberg keeps them: times as numbers."""
    if array.type == pa.uuid():
        array = array.storage
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array.to_pylist()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("text", "kind"), PAIRS, ids=[f"{text} of {kind}" for text, kind in PAIRS])
@given(data=st.data())
def test_every_transform_of_every_type_is_pyicebergs(text: str, kind: str, data: st.DataObject) -> None:
    arrow, iceberg_type, values = KINDS[kind]
    theirs = parse_transform(text)
    if not theirs.can_transform(iceberg_type):
        with pytest.raises(SpecError, match="partition: "):
            partition_values(field_of(text), array_of([None], arrow))
        return
    given_values = data.draw(st.lists(st.none() | values, max_size=12))
    column = array_of(given_values, arrow)
    apply = theirs.transform(iceberg_type)
    found = partition_values(field_of(text), column)
    assert found.type == result_type(field_of(text), arrow)
    assert plain(found) == [apply(value) for value in given_values]
    assert plain(partition_values(field_of(text), column[1:])) == plain(found)[1:]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        # The vectors of the Iceberg table spec, appendix B.
        (pa.array([34], pa.int32()), 2017239379),
        (pa.array([34], pa.int64()), 2017239379),
        (pa.array([Decimal("14.20")], pa.decimal128(9, 2)), -500754589),
        (pa.array([dt.date(2017, 11, 16)], pa.date32()), -653330422),
        (pa.array([dt.time(22, 31, 8)], pa.time64("us")), -662762989),
        (pa.array([dt.datetime(2017, 11, 16, 22, 31, 8)], pa.timestamp("us")), -2047944441),
        (pa.array([dt.datetime(2017, 11, 16, 22, 31, 8, 1)], pa.timestamp("us")), -1207196810),
        (pa.array(["iceberg"]), 1210000089),
        (pa.array([bytes([0, 1, 2, 3])], pa.binary()), -188683207),
        (pa.array([bytes([0, 1, 2, 3])], pa.binary(4)), -188683207),
        (array_of([uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.uuid()), 1488055340),
    ],
    ids=lambda given: str(given.type) if isinstance(given, pa.Array) else None,
)
def test_the_hashes_of_the_specification_hold(column: pa.Array, expected: int) -> None:
    buckets = 2**31 - 1
    value = (expected & 0x7FFFFFFF) % buckets
    assert partition_values(field_of(f"bucket[{buckets}]"), column).to_pylist() == [value]


@given(st.lists(st.binary(max_size=70), min_size=1, max_size=20))
def test_hashes_of_bytes_are_those_of_mmh3(strings: list[bytes]) -> None:
    lengths = np.array([len(string) for string in strings], np.int64)
    data = np.frombuffer(b"".join(strings), np.uint8)
    found = murmur3_bytes(data, np.cumsum(lengths) - lengths, lengths)
    assert found.tolist() == [mmh3.hash(string, signed=False) for string in strings]


@given(st.lists(LONG, min_size=1))
def test_hashes_of_numbers_are_those_of_mmh3(numbers: list[int]) -> None:
    expected = [mmh3.hash(number.to_bytes(8, "little", signed=True), signed=False) for number in numbers]
    assert murmur3_int64(np.array(numbers, np.int64)).tolist() == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("text", ["year", "month", "day", "hour", "bucket[16]"])
@given(seconds=st.integers(-9_000_000_000, 9_000_000_000))
def test_the_unit_of_a_timestamp_changes_no_value(unit: str, text: str, seconds: int) -> None:
    column = pa.array([seconds], pa.timestamp("s")).cast(pa.timestamp(unit))
    reference = parse_transform(text).transform(iceberg.TimestampType())(seconds * 10**6)
    assert plain(partition_values(field_of(text), column)) == [reference]


def test_dates_in_milliseconds_and_times_in_seconds_are_taken_too() -> None:
    date = pa.array([dt.date(1969, 12, 31)], pa.date64())
    assert partition_values(field_of("day"), date).cast(pa.int32()).to_pylist() == [-1]
    assert partition_values(field_of("year"), date).to_pylist() == [-1]
    time = pa.array([dt.time(22, 31, 8)])
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("ns")):
        found = partition_values(field_of("bucket[1000]"), time.cast(kind))
        assert found.to_pylist() == partition_values(field_of("bucket[1000]"), time).to_pylist()


def test_words_of_a_dictionary_are_taken_as_what_they_stand_for() -> None:
    words = pa.array(["g", "r", None, "g"]).dictionary_encode()
    assert partition_values(field_of("identity"), words).to_pylist() == ["g", "r", None, "g"]
    plain_words = partition_values(field_of("bucket[8]"), words.dictionary_decode())
    assert partition_values(field_of("bucket[8]"), words).to_pylist() == plain_words.to_pylist()


@pytest.mark.parametrize("order", [0, 5, 13, 14, 29])
@given(data=st.data())
def test_a_healpix_field_is_the_pixel_of_its_order(order: int, data: st.DataObject) -> None:
    field = PartitionField.parse(f"healpix[{order}]")
    ra = data.draw(st.lists(st.floats(0, 360), min_size=1, max_size=5))
    dec = data.draw(st.lists(st.floats(-90, 90), min_size=len(ra), max_size=len(ra)))
    fine = healpy.ang2pix(2**29, ra, dec, nest=True, lonlat=True)
    expected = healpy.ang2pix(2**order, ra, dec, nest=True, lonlat=True)
    assert partition_values(field, pa.array(fine)).to_pylist() == expected.tolist()


def test_a_transform_that_a_type_does_not_have_names_the_column_and_what_it_is_for() -> None:
    with pytest.raises(SpecError, match=r"year\(x\): column 'x' is of type double; year is for dates"):
        partition_values(field_of("year"), pa.array([1.0]))
    assert TransformName.YEAR.is_range_only
