"""Tables of anybody as plain types: the same values, in types that Parquet writes and Arrow can gather."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import SchemaMismatchError
from hipslake.sources.plain_types import with_plain_types

WORDS = pa.array(["x", None, "y"])
CODES = pa.array([0, 1, 2, None], pa.int8())
LONG = "longer than the twelve bytes that a view holds itself"


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, LONG, ""], pa.string_view()),
        pa.array([b"a", None, LONG.encode(), b""], pa.binary_view()),
        pa.array([["a"], None, [LONG, None], []], pa.list_(pa.string_view())),
        pa.array([{"t": "a"}, None, {"t": LONG}, {"t": None}], pa.struct([("t", pa.string_view())])),
        pa.DictionaryArray.from_arrays(CODES, WORDS),
        pa.DictionaryArray.from_arrays(CODES, pa.array([1, None, 3])),
        pa.DictionaryArray.from_arrays(CODES, WORDS.cast(pa.string_view())),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), pa.array(["a", None])),
        pa.nulls(4),
        pa.array([1, None, 3, 4], pa.uint64()),
    ],
    ids=lambda column: str(column.type),
)
def test_values_stay_and_can_be_gathered_and_written(column: pa.Array) -> None:
    table = with_plain_types(pa.table({"c": column}), "here")
    assert table["c"].to_pylist() == column.to_pylist()
    gathered = table.take(pa.array([3, 2, 1, 0]))
    sink = pa.BufferOutputStream()
    pq.write_table(gathered, sink)
    assert pq.read_table(pa.BufferReader(sink.getvalue()))["c"].to_pylist() == column.to_pylist()[::-1]


def test_what_fits_is_not_copied() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]}, metadata={"k": "v"})
    plain = with_plain_types(table, "here")
    assert plain.schema.equals(table.schema, check_metadata=True)
    assert plain["b"].chunk(0).buffers()[2].address == table["b"].chunk(0).buffers()[2].address


@pytest.mark.parametrize(
    "column",
    [
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    ],
    ids=lambda column: str(column.type),
)
def test_types_of_no_parquet_file_are_refused_by_column(column: pa.Array) -> None:
    with pytest.raises(SchemaMismatchError, match=r"here: column 'odd' is of type .* which is not stored"):
        with_plain_types(pa.table({"odd": column}), "here")
