"""Sketches of distinct values: hashes, bytes of values, and counts, against packages and plain Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
import struct
import sys
import uuid
from typing import Any

import datasketches
import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import CorruptFileError, MissingPackageError
from hipslake.tables.iceberg.puffin_file import THETA, Blob, blobs_of, puffin_of
from hipslake.tables.murmur128 import murmur3_x64
from hipslake.tables.new_files import NewFile, described, undescribed
from hipslake.tables.single_values import PackedValues, single_values
from hipslake.tables.value_sketches import (
    NOMINAL,
    SketchMaker,
    as_texts,
    counted_column,
    distinct_values,
    of_files,
    sketched_together,
    sketches_of,
    united,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types
from pyiceberg.conversions import to_bytes

from tests.examples import examples
from tests.tables.puffin_reading import ReadBlob

LONG, SHORT = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
KINDS: dict[str, tuple[pa.DataType, types.PrimitiveType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), types.BooleanType(), st.booleans()),
    "int": (pa.int32(), types.IntegerType(), SHORT),
    "long": (pa.int64(), types.LongType(), LONG),
    "float": (pa.float32(), types.FloatType(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), types.DoubleType(), st.floats(allow_nan=False)),
    "decimal(9, 2)": (
        pa.decimal128(9, 2),
        types.DecimalType(9, 2),
        st.decimals(-9_999_999, 9_999_999, places=2),
    ),
    "decimal(38, 0)": (
        pa.decimal128(38, 0),
        types.DecimalType(38, 0),
        st.integers(-(10**38) + 1, 10**38 - 1).map(decimal.Decimal),
    ),
    "date": (pa.date32(), types.DateType(), st.dates()),
    "time": (pa.time64("us"), types.TimeType(), st.times()),
    "timestamp": (pa.timestamp("us"), types.TimestampType(), MOMENTS),
    "timestamptz": (
        pa.timestamp("us", "UTC"),
        types.TimestamptzType(),
        MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    ),
    "string": (pa.string(), types.StringType(), st.text(max_size=40)),
    "large string": (pa.large_string(), types.StringType(), st.text(max_size=40)),
    "binary": (pa.binary(), types.BinaryType(), st.binary(max_size=40)),
    "large binary": (pa.large_binary(), types.BinaryType(), st.binary(max_size=40)),
    "fixed[5]": (pa.binary(5), types.FixedType(5), st.binary(min_size=5, max_size=5)),
    "uuid": (pa.uuid(), types.UUIDType(), st.uuids()),
}


def texts(packed: PackedValues) -> list[bytes]:
    return [
        packed.data[start : start + length].tobytes()
        for start, length in zip(packed.starts, packed.lengths, strict=True)
    ]


def column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.UuidType):
        plain = [None if value is None else value.bytes for value in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(plain, pa.binary(16)))
    return pa.array(values, kind)


@given(st.lists(st.binary(max_size=70), max_size=30), st.integers(0, 2**32 - 1))
def test_hashes_are_those_of_a_package(values: list[bytes], seed: int) -> None:
    found = murmur3_x64(*single_values(pa.array(values, pa.binary())), seed=seed)
    assert found.tolist() == [mmh3.hash64(value, seed, signed=False)[0] for value in values]


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_bytes_of_values_are_those_of_pyiceberg(kind: str, data: st.DataObject) -> None:
    arrow, iceberg, drawn = KINDS[kind]
    values = data.draw(st.lists(st.none() | drawn, max_size=12))
    first = data.draw(st.integers(0, len(values)))
    made = column(arrow, values).slice(first)
    wanted = [to_bytes(iceberg, value) for value in values[first:] if value is not None]
    assert texts(single_values(made)) == wanted


@pytest.mark.parametrize("bits", [32, 64])
def test_all_nan_are_one_value_and_zeros_have_a_sign(bits: int) -> None:
    kind = np.dtype(f"<f{bits // 8}")
    quiet = np.frombuffer(np.array([-1, -2, -3], f"<i{bits // 8}").tobytes(), kind)  # NaN of other bits
    values = pa.array(np.concatenate([quiet, np.array([math.nan, 0.0, -0.0, 1.0], kind)]))
    found = texts(single_values(values))
    form = "<f" if bits == 32 else "<d"
    nan = bytes.fromhex("0000c07f" if bits == 32 else "000000000000f87f")  # that of Java
    assert found == [nan] * 4 + [struct.pack(form, each) for each in (0.0, -0.0, 1.0)]


def test_times_beyond_python_s_are_bytes_too() -> None:
    far = pa.array([-(2**63), 2**63 - 1], pa.int64())
    for kind in (pa.timestamp("us"), pa.timestamp("ns", "UTC")):
        assert texts(single_values(far.view(kind))) == [struct.pack("<q", each) for each in far.to_pylist()]


@pytest.mark.parametrize("count", [0, 1, 2, 1000, NOMINAL])
def test_a_sketch_of_few_values_is_that_of_the_package_byte_for_byte(count: int) -> None:
    """The package hashes whole numbers and texts as Iceberg does: as eight bytes, and UTF-8."""
    numbers, names = datasketches.update_theta_sketch(), datasketches.update_theta_sketch()
    for number in range(count):
        numbers.update(number)
        names.update(f"name {number}")
    values = [number for number in range(count) for _ in range(2)] + [None]
    random.Random(count).shuffle(values)
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    rows = [{"n": n, "s": None if n is None else f"name {n}"} for n in values]
    parts = [pa.Table.from_pylist(part, schema) for part in (rows[::2], rows[1::2])]
    made = sketches_of(parts, [each for name in ("n", "s") if (each := counted_column(schema, name))])
    assert made["n"] == numbers.compact().serialize()
    assert made["s"] == names.compact().serialize()
    assert [distinct_values(made[name]) for name in ("n", "s")] == [count, count]
    assert len(ReadBlob({}, made["n"]).hashes) == count


@given(st.lists(st.none() | st.integers(0, 50), max_size=200), st.integers(0, 5))
def test_few_values_are_counted_exactly_in_whatever_parts(values: list[int | None], cuts: int) -> None:
    parts = [values[at :: cuts + 1] for at in range(cuts + 1)]
    makers = [SketchMaker() for _ in parts]
    for maker, part in zip(makers, parts, strict=True):
        maker.add(pa.chunked_array([pa.array(part[:3], pa.int64()), pa.array(part[3:], pa.int64())]))
    sketch = united(maker.sketch() for maker in makers)
    assert distinct_values(sketch) == len({value for value in values if value is not None})


@pytest.mark.parametrize("seed", range(4))
def test_many_values_are_estimated_within_the_bounds_of_the_format(seed: int) -> None:
    """Four standard errors, of sketches that are made at once and of united ones."""
    random_ = np.random.default_rng(seed)
    count = int(random_.integers(NOMINAL + 1, 500_000))
    values = random_.integers(-(2**63), 2**63 - 1, count)
    repeated = values[random_.integers(0, count, count)]
    exact = len(set(repeated.tolist()) | set(values[: count // 3].tolist()))
    whole, first, second = SketchMaker(), SketchMaker(), SketchMaker()
    whole.add(pa.array(np.concatenate([repeated, values[: count // 3]])))
    first.add(pa.array(repeated))
    second.add(pa.array(values[: count // 3]))
    for sketch in (whole.sketch(), united([first.sketch(), second.sketch()])):
        assert abs(distinct_values(sketch) / exact - 1) < 4 / math.sqrt(NOMINAL - 1)
        theirs = datasketches.compact_theta_sketch.deserialize(sketch, 9001)
        assert theirs.get_lower_bound(3) <= exact * 1.01
        assert theirs.get_upper_bound(3) >= exact * 0.99
        assert theirs.num_retained <= NOMINAL
        # The hashes are the smallest of all, and none below the threshold is missing.
        hashes = murmur3_x64(
            *single_values(pa.array(np.unique(np.append(repeated, values[: count // 3])))), 9001
        )
        halves = np.sort(hashes >> np.uint64(1))
        assert ReadBlob({}, sketch).hashes == set(halves[halves < theirs.theta64].tolist())


def test_parts_of_structs_are_found_and_null_where_the_struct_is() -> None:
    kind = pa.struct([("b", pa.struct([("c", pa.int64())])), ("d.e", pa.string())])
    rows = pa.table(
        {
            "a": pa.array([{"b": {"c": 1}, "d.e": "x"}, None, {"b": None, "d.e": "y"}], kind),
            "a.b": pa.array([7, 8, 8], pa.int64()),
        }
    )
    found = {name: counted_column(rows.schema, name) for name in ("a.b.c", "a.d.e", "a.b", "a.x", "z", "a.")}
    assert {name for name, each in found.items() if each is None} == {"a.x", "z", "a."}
    columns = [each for each in found.values() if each is not None]
    assert [each.path for each in columns] == [("a", "b", "c"), ("a", "d.e"), ("a.b",)]
    made = sketches_of([rows], columns)
    assert {name: distinct_values(sketch) for name, sketch in made.items()} == {
        "a.b.c": 1,
        "a.d.e": 2,
        "a.b": 2,
    }


def test_files_of_a_task_have_their_sketches_together() -> None:
    def file(number: int, *values: int) -> NewFile:
        maker = SketchMaker()
        maker.add(pa.array(values, pa.int64()))
        return NewFile(path=f"{number}", rows=1, bytes=1, sketches=as_texts({"n": maker.sketch()}))

    plain = [NewFile(path="a", rows=1, bytes=1), NewFile(path="b", rows=1, bytes=1)]
    assert sketched_together(plain) == plain
    files = sketched_together([file(1, 1, 2), file(2, 2, 3), file(3, 3, 4)])
    assert [bool(each.sketches) for each in files] == [True, False, False]
    back = undescribed(pa.Table.from_batches([described(files)]))
    assert {name: distinct_values(sketch) for name, sketch in of_files(back).items()} == {"n": 4}


@pytest.mark.parametrize("damaged", [b"", b"\x01", b"PFA1" * 10, bytes(64), b"\xff" * 64])
def test_what_is_no_sketch_is_told(damaged: bytes) -> None:
    with pytest.raises(CorruptFileError, match="a sketch of distinct values is damaged"):
        united([damaged])
    with pytest.raises(CorruptFileError, match="a sketch of distinct values is damaged"):
        distinct_values(damaged)


def puffin(count: int) -> bytes:
    """A file of two sketches, of many values and of a few."""
    makers = [SketchMaker(), SketchMaker()]
    makers[0].add(pa.array(range(count), pa.int64()))
    makers[1].add(pa.array(["g", "r"]))
    sketches = [maker.sketch() for maker in makers]
    blobs = [Blob(THETA, (at + 1,), 7, 3, sketch, {"ndv": "2"}) for at, sketch in enumerate(sketches)]
    return puffin_of(blobs).content


PUFFINS = [puffin(count) for count in (0, 1, 50, 6000)]


@settings(max_examples=examples(500), deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_is_spoilt_is_told_or_read(random_: random.Random) -> None:
    """Whatever bytes others leave: an error of ours, or a sketch that can be gone on with."""
    content = bytearray(random_.choice(PUFFINS))
    for _ in range(random_.randint(1, 4)):
        first = random_.choice([0, 4, max(len(content) - 400, 0)])
        at = random_.randrange(first, max(min(len(content), first + 400), first + 1))
        spoil = random_.randrange(4)
        if spoil == 0:
            content[at : at + 1] = bytes([random_.randrange(256)])
        elif spoil == 1:
            del content[at:]
        elif spoil == 2:
            content[at:at] = random_.randbytes(random_.randint(1, 9))
        else:
            content[at : at + 2] = random_.choice([b"99", b"-1", b"[[", b"{}", b"\xff\xff", b'",'])
    try:
        found = united(blob.payload for blob in blobs_of(bytes(content), THETA))
    except CorruptFileError:
        return
    assert distinct_values(found) >= 0


def test_a_sketch_of_another_seed_is_told() -> None:
    other = datasketches.update_theta_sketch(seed=1)
    other.update(1)
    with pytest.raises(CorruptFileError, match="seed"):
        united([other.compact().serialize()])


def test_that_the_package_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(
        MissingPackageError, match=r"statistics: ndv of a table needs .* pip install datasketches"
    ):
        SketchMaker()


def test_uuids_are_big_endian() -> None:
    value = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    assert texts(single_values(column(pa.uuid(), [value]))) == [bytes.fromhex(value.hex)]
