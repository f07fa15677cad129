"""INT96 times in nested columns: found, counted, given a unit, and held against it."""

from __future__ import annotations

import io
import struct
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError
from hipslake.storage.int96 import (
    StoredTimes,
    check_int96,
    int96_columns,
    int96_unit,
    leaf_count,
    unit_for,
    with_int96_as,
)

EARLY, NOW, LATE = datetime(1, 1, 1), datetime(2026, 1, 2, 3, 4, 5, 678_901), datetime(9999, 12, 31)
US, NS = pa.timestamp("us"), pa.timestamp("ns")


def nested(kind: pa.DataType) -> dict[str, pa.DataType]:
    """Types of every form with a time in them, beside what is none."""
    return {
        "plain": kind,
        "list": pa.list_(kind),
        "large list": pa.large_list(kind),
        "fixed list": pa.list_(kind, 2),
        "struct": pa.struct([("n", pa.int32()), ("t", kind), ("w", pa.string())]),
        "map": pa.map_(pa.string(), kind),
        "deep": pa.list_(
            pa.struct([("t", pa.list_(kind)), ("m", pa.map_(pa.int32(), pa.struct([("t", kind)])))])
        ),
    }


def value(form: str, time: datetime | None) -> Any:
    return {
        "plain": time,
        "list": [time, None],
        "large list": [time],
        "fixed list": [time, time],
        "struct": {"n": 1, "t": time, "w": "x"},
        "map": [("a", time)],
        "deep": [{"t": [time], "m": [(7, {"t": time})]}, {"t": None, "m": None}],
    }[form]


def file_of(
    form: str, times: list[datetime | None], kind: pa.DataType = US, *, noted: bool = False
) -> io.BytesIO:
    """A file whose column `x` holds times in INT96, between columns that are none.

    Whether pyarrow's note of the types is in it decides if its lists are large or of fixed length.
    """
    arrays = {
        "before": pa.array([1.5] * len(times)),
        "x": pa.array([value(form, time) for time in times], nested(kind)[form]),
        "after": pa.array(["y"] * len(times)),
    }
    sink = io.BytesIO()
    pq.write_table(
        pa.table(arrays), sink, use_deprecated_int96_timestamps=True, row_group_size=2, store_schema=noted
    )
    return sink


@pytest.mark.parametrize("form", nested(US))
@pytest.mark.parametrize("noted", [False, True], ids=["by Parquet's types", "by Arrow's types"])
def test_times_inside_of_columns_are_found_and_get_their_unit(form: str, noted: bool) -> None:
    times = [NOW, None, EARLY, LATE]
    file = file_of(form, times, noted=noted)
    metadata = pq.read_metadata(file)
    assert int96_columns(metadata) == ("x",)
    assert int96_unit(file, metadata) == "us"
    schema = metadata.schema.to_arrow_schema()
    assert with_int96_as(schema, metadata, "ns") == schema
    read = pq.read_table(file, coerce_int96_timestamp_unit="us")
    assert with_int96_as(schema, metadata, "us").equals(read.schema)
    assert read["x"].to_pylist() == [value(form, time) for time in times]
    check_int96(file, ["before", "x", "after"], [0, 1], "us", "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: column 'x' .*beyond what timestamp\[ns\] holds"):
        check_int96(file, ["x"], [0, 1], "ns", "a.parquet")
    check_int96(file, ["x"], [0], "ns", "a.parquet")  # the times of another row group do not count
    check_int96(file, ["before"], [0, 1], "ns", "a.parquet")


@pytest.mark.parametrize("form", nested(US))
def test_parts_of_microseconds_ask_for_nanoseconds(form: str) -> None:
    fine = pa.scalar(1_234_567_891, NS).as_py()  # a pandas timestamp, which keeps nanoseconds
    file = file_of(form, [NOW, None, NOW, fine], NS)
    metadata = pq.read_metadata(file)
    assert int96_unit(file, metadata) == "ns"
    assert int96_unit(file, metadata, rows=1) == "us"  # as far as the first row group tells
    assert int96_unit(file, metadata, rows=3) == "ns"
    with pytest.raises(InputError, match="parts of a microsecond"):
        check_int96(file, ["x"], [0, 1], "us", "a.parquet")
    check_int96(file, ["x"], [0, 1], "ns", "a.parquet")


@pytest.mark.parametrize(
    ("time", "units"),
    [
        (timedelta(microseconds=2**63 - 1 - 10**18), ("us",)),
        (datetime(2262, 4, 11, 23, 47, 16, 854_775) - datetime(1970, 1, 1), ("us", "ns")),
        (datetime(2262, 4, 11, 23, 47, 16, 854_776) - datetime(1970, 1, 1), ("us",)),
        (datetime(1677, 9, 21, 0, 12, 43, 145_225) - datetime(1970, 1, 1), ("us", "ns")),
        (datetime(1677, 9, 21, 0, 12, 43, 145_224) - datetime(1970, 1, 1), ("us",)),
    ],
    ids=["far", "last of 64 bits", "one more", "first", "one less"],
)
def test_limits_of_a_unit(time: timedelta, units: tuple[str, ...]) -> None:
    nanos = (time.seconds * 10**6 + time.microseconds) * 1000
    stored = pa.array([struct.pack("<qi", nanos, time.days + 2_440_588)], pa.binary(12))
    fits = [unit for unit in ("us", "ns") if StoredTimes.of(stored).misfit(unit) is None]
    assert tuple(fits) == units


@pytest.mark.parametrize("nanos", [-1, 86_400_000_000_000])
def test_a_time_outside_of_its_day_is_told(nanos: int) -> None:
    stored = pa.array([struct.pack("<qi", nanos, 2_440_588)], pa.binary(12))
    assert StoredTimes.of(stored).misfit("us") == "a time of day lies outside of the day"


def test_no_values_fit_any_unit() -> None:
    assert StoredTimes.of(pa.array([], pa.binary(12))).misfit("ns") is None


def test_leaves_of_a_type_are_parquets_columns() -> None:
    sink = io.BytesIO()
    for kind in (*nested(US).values(), pa.uuid(), pa.list_(pa.uuid())):
        pq.write_table(pa.table({"x": pa.nulls(0, kind)}), sink)
        assert leaf_count(kind) == pq.read_metadata(sink).num_columns
        sink.seek(0)
        sink.truncate()


def test_the_finest_unit_of_the_columns_asked_for_counts() -> None:
    schema = pa.schema({**nested(US), **{f"{form} in ns": kind for form, kind in nested(NS).items()}})
    for form in nested(US):
        assert unit_for(schema, [form, "no such column"]) == "us"
        assert unit_for(schema, ["plain", f"{form} in ns"]) == "ns"
