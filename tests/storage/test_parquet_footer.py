"""Footers without logical types: values come as they are stored, and a damaged footer is told as such."""

from __future__ import annotations

import io
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake.storage.parquet_footer import FooterError, stored_footer

TIMES = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59), None, datetime(9999, 12, 31)]
TABLE = pa.table(
    {
        "us": pa.array(TIMES, pa.timestamp("us")),
        "zoned": pa.array([each and each.replace(tzinfo=UTC) for each in TIMES], pa.timestamp("ms", "UTC")),
        "day": pa.array([date(1, 1, 1), None, date(2000, 2, 29), date(9999, 12, 31)]),
        "clock": pa.array([time(0), time(23, 59, 59, 999_999), None, time(12)], pa.time64("us")),
        "price": pa.array([Decimal("-1.50"), None, Decimal("0.01"), Decimal("999.99")], pa.decimal128(20, 2)),
        "small": pa.array([-128, None, 0, 127], pa.int8()),
        "word": pa.array(["", None, "käse", "x" * 300]),
        "truth": pa.array([True, None, False, True]),
        "half": pa.array([np.nan, None, -0.0, 1.5], pa.float64()),
        "inside": pa.array([{"t": each, "many": [each, None]} for each in TIMES]),
        "named": pa.array(
            [[("a", each)] for each in TIMES], pa.map_(pa.string(), pa.timestamp("us"), keys_sorted=True)
        ),
    }
)


def written(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def stored(data: bytes) -> pa.Table:
    """The values of a file as they are stored."""
    return pq.ParquetFile(pa.BufferReader(data), metadata=stored_footer(io.BytesIO(data))).read()


def with_footer(footer: bytes) -> io.BytesIO:
    return io.BytesIO(b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")


@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize("wide", [False, True], ids=["few columns", "many columns"])
def test_values_come_as_they_are_stored(version: str, wide: bool) -> None:
    table = TABLE
    for number in range(300 if wide else 0):  # lists of schema elements of any length
        table = table.append_column(f"more {number}", pa.array([number] * 4, pa.uint32()))
    found = stored(written(table, version=version))
    assert found.column_names == table.column_names
    for name, kind in (("us", pa.int64()), ("zoned", pa.int64()), ("day", pa.int32()), ("clock", pa.int64())):
        assert found[name].type == kind
        assert found[name].to_pylist() == table[name].cast(kind).to_pylist()
    assert found["word"].type == pa.binary()
    assert found["word"].to_pylist() == table["word"].cast(pa.binary()).to_pylist()
    assert found["small"].to_pylist() == table["small"].to_pylist()
    assert found["truth"].equals(table["truth"])
    assert (
        found["half"]
        .combine_chunks()
        .view(pa.int64())
        .equals(table["half"].combine_chunks().view(pa.int64()))
    )
    unscaled = [
        None if each is None else int.from_bytes(each, "big", signed=True)
        for each in found["price"].to_pylist()
    ]
    assert unscaled == [None if each is None else int(each * 100) for each in table["price"].to_pylist()]
    inside = pc.struct_field(found["inside"], "t").to_pylist()
    assert inside == table["us"].cast(pa.int64()).to_pylist()
    flat = pc.list_flatten(pc.struct_field(found["inside"], "many")).to_pylist()
    assert flat == [each for one in inside for each in (one, None)]
    assert [dict(each) for each in found["named"].to_pylist()] == [{b"a": each} for each in inside]
    if wide:
        assert found["more 299"].to_pylist() == [299] * 4


def test_int96_is_12_bytes_of_each_value() -> None:
    table = pa.table({"t": pa.array([datetime(1970, 1, 2, 0, 0, 1), None], pa.timestamp("ns"))})
    found = stored(written(table, use_deprecated_int96_timestamps=True))["t"]
    assert found.type == pa.binary(12)
    assert found.to_pylist() == [struct.pack("<qi", 10**9, 2_440_589), None]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too short"),
        (b"PAR1PAR1", "too short"),
        (b"PAR1" + bytes(100), "no footer"),
        (b"PAR1" + struct.pack("<I", 1000) + b"PAR1", "no footer"),
        (b"PAR1" + bytes(8) + struct.pack("<I", 8) + b"PARE", "encrypted"),
    ],
    ids=["empty", "nothing between", "another format", "longer than the file", "encrypted"],
)
def test_what_has_no_footer_is_told(data: bytes, message: str) -> None:
    with pytest.raises(FooterError, match=message):
        stored_footer(io.BytesIO(data))


@pytest.mark.parametrize(
    ("footer", "message"),
    [
        (b"", "index out of range"),
        (b"\x00", "no schema"),
        (b"\x15\x02\x00", "no schema"),  # a version, and the end
        (b"\x1d\x00", "unknown kind 13"),
        (b"\x1b\x00", "unknown kind 11"),  # a map: the format has none
        (b"\x18\x7fabc", "ends too early"),
        (b"\x17abc", "ends too early"),  # a double of three bytes
        (b"\x15" + b"\xff" * 10 + b"\x00", "too long"),
        (b"\x19\xfc\xff\xff\xff\x7f", "longer than itself"),
        (b"\x29\x1c\x17" + bytes(8) + b"\x00\x00", "schema element with a value of kind 7"),
    ],
)
def test_a_footer_that_is_none_is_told(footer: bytes, message: str) -> None:
    with pytest.raises(FooterError, match=message):
        stored_footer(with_footer(footer))


def test_fields_that_the_format_may_get_are_kept() -> None:
    """A later version of Parquet may add fields of any kind to the elements of a schema."""
    data = written(pa.table({"x": pa.array([1, 2, 3], pa.int32())}))
    length = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - length : -8]
    assert footer[:3] == b"\x15\x04\x19"  # version 2, then the list of schema elements
    assert footer[3] == 2 << 4 | 12
    root_ends = footer.index(b"\x00", footer.index(b"schema"))
    more = (
        b"\x01\xc8\x01"  # field 100: true, with its number in full, for it lies more than 15 on
        b"\x12"  # 101: false
        b"\x13\x07"  # 102: a byte
        b"\x16\xd0\x0f"  # 103: 1000
        b"\x18\x02ab"  # 104: two bytes
        b"\x1c\x15\x02\x00"  # 105: a struct with a number
    )
    richer = footer[:root_ends] + more + footer[root_ends:]
    longer = data[: -8 - length] + richer + struct.pack("<I", len(richer)) + b"PAR1"
    assert pq.read_metadata(pa.BufferReader(longer)).num_rows == 3  # pyarrow passes over them, too
    assert stored(longer).to_pydict() == {"x": [1, 2, 3]}


@pytest.mark.parametrize("kind", [b"\x17" + bytes(8), b"\x11", b"\x12", b"\x13\x05", b"\x19\x21\x01\x02"])
def test_fields_before_the_schema_are_passed_over(kind: bytes) -> None:
    """Field 1 as a double, true, false, a byte, and a list of two truths: none of them ends the search."""
    with pytest.raises(FooterError, match="no schema"):
        stored_footer(with_footer(kind + b"\x00"))


def test_a_footer_that_is_cut_or_changed_anywhere_is_read_or_told() -> None:
    data = written(TABLE)
    length = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - length : -8]
    outcomes = set()
    for at in range(0, len(footer), 7):
        for changed in (footer[:at], footer[:at] + bytes([footer[at] ^ 0x1F]) + footer[at + 1 :]):
            try:
                stored_footer(with_footer(changed))
                outcomes.add("read")
            except FooterError:
                outcomes.add("told")
    assert outcomes == {"read", "told"}
