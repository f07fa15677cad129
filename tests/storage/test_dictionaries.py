"""Columns get a dictionary where their values repeat."""

from __future__ import annotations

import io
import struct
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.storage.dictionaries import count_distinct, repeating_columns
from hypothesis import given
from hypothesis import strategies as st

ROWS = 100_000


def written(rows: pa.Table, use_dictionary: list[str] | bool) -> tuple[int, pa.Table]:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd", use_dictionary=use_dictionary)
    return len(sink.getvalue()), pq.read_table(sink)


def test_columns_whose_values_repeat_get_one_and_the_file_is_the_smaller_for_it() -> None:
    rng = np.random.default_rng(1)
    band = pa.array(rng.choice(["g", "r", "i", None], ROWS), pa.string())
    rows = pa.table({"id": np.arange(ROWS), "flux": rng.normal(size=ROWS), "band": band})
    assert repeating_columns(rows) == ["band"]
    size, read = written(rows, repeating_columns(rows))
    assert read.equals(rows)
    assert size < min(written(rows, every)[0] for every in (True, False))


def test_where_nothing_repeats_there_is_none() -> None:
    assert repeating_columns(pa.table({"id": np.arange(1000)})) is False


def test_nulls_alone_repeat_and_no_rows_are_no_trouble() -> None:
    assert repeating_columns(pa.table({"note": pa.nulls(1000, pa.string())})) == ["note"]
    assert repeating_columns(pa.table({"note": pa.nulls(0, pa.string())})) == ["note"]


def test_dictionaries_stay_and_nested_columns_are_left_to_the_writer() -> None:
    assert repeating_columns(pa.table({"band": pa.array(["g", "r"]).dictionary_encode()})) == ["band"]
    assert repeating_columns(pa.table({"spectrum": pa.array([[1.0], [2.0]])})) is True


KINDS = [
    *(pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32()),
    *(pa.time64("us"), pa.timestamp("us", "UTC"), pa.duration("s"), pa.decimal128(9, 2), pa.string()),
]


def _bits(value: Any) -> Any:
    """A value that is equal to others where its bits are."""
    return struct.pack("<d", value) if isinstance(value, float) else value


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_values_are_counted_as_a_set_counts_them(kind: pa.DataType, data: st.DataObject) -> None:
    small = st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=40)
    chunks = data.draw(st.lists(small, max_size=4))
    arrays = [_of_kind(chunk, kind) for chunk in chunks]
    values = pa.chunked_array(arrays * data.draw(st.sampled_from([1, 20])), kind)  # few, or many
    at = data.draw(st.integers(0, len(values)))
    values = values.slice(at, data.draw(st.integers(0, len(values) - at)))
    assert count_distinct(values) == len({_bits(value) for value in values.to_pylist()})


def _of_kind(numbers: list[int | None], kind: pa.DataType) -> pa.Array:
    found = pa.array(numbers, pa.int64())
    if pa.types.is_floating(kind):
        special = [np.nan, -0.0, 0.0, np.inf, 1.5, -1.5, 2.0, 3.0, 4.0, 5.0]
        return pa.array([None if each is None else special[each] for each in numbers], kind)
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return found.cast(whole).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if each is None else each > 4 for each in numbers], kind)
    return found.cast(kind) if not pa.types.is_decimal(kind) else found.cast(pa.decimal128(19, 0)).cast(kind)


@pytest.mark.parametrize("distinct", [1, 2000, 9_000, 13_000, 40_000, 10**9])
def test_numbers_and_their_texts_are_judged_alike(distinct: int) -> None:
    numbers = np.random.default_rng(3).integers(0, distinct, ROWS)
    columns = {"number": pa.array(numbers), "text": pa.array(numbers.astype(str))}
    columns["time"] = pa.array([datetime.fromtimestamp(int(each) % 2**31, UTC) for each in numbers])
    wanted = ["number", "text", "time"] if distinct < 10_000 else False
    assert repeating_columns(pa.table(columns)) == wanted


def test_a_value_that_stands_for_missing_ones_makes_no_dictionary_of_the_others() -> None:
    """A third of the rows has one value; the others all differ."""
    values = np.random.default_rng(4).normal(size=ROWS)
    values[::3] = -9999.0
    assert repeating_columns(pa.table({"flux": values})) is False
