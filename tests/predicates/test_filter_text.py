"""Filters as text: what they mean is held against pandas, and what they may not be is an error."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake.errors import FilterError
from hipslake.predicates.evaluation import passing
from hipslake.predicates.filter_text import parse_filter
from hipslake.predicates.pruning import pushed_down
from hypothesis import given
from hypothesis import strategies as st

MAG = [11.5, None, 12.0, float("nan"), 14.25, -3.0]
TABLE = pa.table(
    {
        "id": pa.array([0, 1, 2, 3, 4, 5], pa.int64()),
        "mag": pa.array(MAG, pa.float64()),
        "B-V": pa.array([0.5, 0.6, None, 0.8, 0.9, 1.0]),
        "name": ["a", "b's", None, "and", "", 'q"q'],
        "flag": [True, False, None, True, False, True],
        "In": [5, 4, 3, 2, 1, 0],
        'odd"name': [1, 1, 1, 2, 2, 2],
    }
)


def ids(text: str) -> list[int]:
    return kept(TABLE, text)["id"].to_pylist()


def kept(table: pa.Table, text: str) -> pa.Table:
    """The rows of a table that a filter keeps."""
    return passing(parse_filter(text, table.schema), table)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mag < 12", [0, 5]),
        ("mag<=12", [0, 2, 5]),
        ("12 <= mag", [2, 4]),
        ("mag = -3", [5]),
        ("mag == -3.0 or id = 1", [1, 5]),
        ("mag != 12", [0, 3, 4, 5]),
        ("mag <> 12", [0, 3, 4, 5]),
        ("mag > 1.2e1", [4]),
        ("mag > .5", [0, 2, 4]),
        ("mag is null", [1]),
        ("mag IS NOT NULL", [0, 2, 3, 4, 5]),
        ("mag is nan", [3]),
        ("mag is not nan and mag is not null", [0, 2, 4, 5]),
        ("mag between 11.5 and 12", [0, 2]),
        ("mag not between 11.5 and 12 and id > 3", [4, 5]),
        ("id in (1, 3,5)", [1, 3, 5]),
        ("id not in (1, 3, 5)", [0, 2, 4]),
        ("name in ('a', 'b''s')", [0, 1]),
        ("name = 'and'", [3]),
        ("name = ''", [4]),
        ("name = 'q\"q'", [5]),
        ('"B-V" >= 0.9', [4, 5]),
        ('"odd""name" = 2', [3, 4, 5]),
        ('"In" > 3', [0, 1]),
        ("flag", [0, 3, 5]),
        ("not flag", [1, 4]),
        ("flag = true", [0, 3, 5]),
        ("flag = False", [1, 4]),
        ('"In" > id', [0, 1, 2]),
        ("id = 0 or id = 1 and mag is null", [0, 1]),
        ("(id = 0 or id = 1) and mag is null", [1]),
        ("not (id < 4 or flag)", [4]),
        ("not not id < 1", [0]),
        ("id < 1 or not id < 5", [0, 5]),
        ("  id\n<\t1  ", [0]),
    ],
)
def test_the_meaning_of_filters(text: str, expected: list[int]) -> None:
    assert ids(text) == expected


@given(low=st.floats(-5, 20), high=st.floats(-5, 20), number=st.integers(-2, 7))
def test_numbers_are_taken_as_they_are(low: float, high: float, number: int) -> None:
    found = ids(f"mag between {low!r} and {high!r} or id = {number}")
    mag = np.array([np.nan if value is None else value for value in MAG])
    assert found == [i for i in range(6) if low <= mag[i] <= high or i == number]


@pytest.mark.parametrize("text", ["mag in (0.0, 2.5)", "mag in (2.5, 0)", "mag in (-0.0, 2.5)"])
def test_zero_is_found_in_a_row_group_that_is_all_zero(tmp_path: Path, text: str) -> None:
    table = pa.table({"mag": [0.0, 0.0, 1.0, 2.5]})
    pq.write_table(table, tmp_path / "mags.parquet", row_group_size=2)
    sought = parse_filter(text, table.schema)
    skipping = pushed_down(sought, table.schema, table.schema)
    files = ds.dataset(tmp_path / "mags.parquet")
    assert passing(sought, files.to_table(filter=skipping))["mag"].to_pylist() == [0.0, 0.0, 2.5]
    assert kept(table, text.replace("in", "not in", 1))["mag"].to_pylist() == [1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mga < 12", "there is no column 'mga'; did you mean 'mag'?"),
        ("zzz < 12", "there is no column 'zzz'; the columns are B-V, In, flag"),
        ("mag", "expected a comparison, 'is', 'in' or 'between', found the end"),
        ("mag <", "expected a column, a number or a 'text', found the end"),
        ("mag < 12 and", "found the end"),
        ("mag < 12 or or id = 1", "found 'or' at 13"),
        ("mag < 12 id = 1", "expected 'and', 'or' or the end, found 'id' at 10"),
        ("(mag < 12", r"expected '\)', found the end"),
        ("mag < 12)", r"found '\)' at 9"),
        ("mag is 12", "expected null, nan, not null or not nan"),
        ("mag is not 12", "expected null, nan"),
        ("mag in ()", r"found '\)'"),
        ("mag in (1 2)", r"expected '\)', found '2'"),
        ("mag not < 3", "expected 'in' or 'between'"),
        ("mag between 1 or 2", "expected 'and', found 'or'"),
        ("1 < 2", "expected a column on one side"),
        ("1", "expected a comparison, found the end"),
        ("B-V > 1", "'-' at 2 has no meaning here"),
        ("name = 'open", "''' at 8 has no meaning|\"'\" at 8 has no meaning"),
        ("__import__('os').system('x')", r"'\.' at 17 has no meaning"),
        ("mag < 12; drop table stars", "';' at 9 has no meaning"),
        ("mag < 12abc", "has no meaning"),
        ("mag < ${HOME}", "has no meaning"),
        ("and", "found 'and' at 1"),
        ("(" * 60 + "id = 1" + ")" * 60, "nested more than 50 deep"),
        ("not " * 60 + "id = 1", "nested more than 50 deep"),
        ("id in (1, 'x')", "filter .*: "),
        ("id = 1 or " * 2000 + "id = 1", "at most 10000"),
    ],
)
def test_what_is_no_filter_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        parse_filter(text, TABLE.schema)


WORDS = ["mag", "id", "flag", "and", "or", "not", "is", "null", "in", "between", "<", "=", *"(),", "1", "'x'"]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_any_words_are_a_filter_or_an_error_of_ours(words: list[str]) -> None:
    try:
        parse_filter(" ".join(words), TABLE.schema)
    except FilterError:
        return


@given(st.text(max_size=40))
def test_any_text_is_a_filter_or_an_error_of_ours(text: str) -> None:
    try:
        parse_filter(text, TABLE.schema)
    except FilterError:
        return


@given(
    values=st.lists(st.decimals(-(10**30), 10**30, places=4), min_size=1, max_size=5),
    text=st.decimals(-(10**37), 10**37, places=8),
)
def test_decimals_are_compared_exactly(values: list[Decimal], text: Decimal) -> None:
    table = pa.table({"z": pa.array(values, pa.decimal128(38, 4))})
    for sign, holds in (("<", Decimal.__lt__), (">=", Decimal.__ge__), ("=", Decimal.__eq__)):
        found = kept(table, f"z {sign} {text:f}")["z"].to_pylist()
        assert found == [value for value in values if holds(value, text)]


@pytest.mark.parametrize(
    ("kind", "values", "text", "expected"),
    [
        (pa.int64(), [-(2**63), 1, 2, 2**63 - 1], "x > 1.5", [2, 2**63 - 1]),
        (pa.int64(), [1, 2], "x in (1, 2.5)", [1]),
        (pa.int8(), [1, 2], "x < 300", [1, 2]),
        (pa.uint64(), [1, 2**64 - 1], "x in (18446744073709551615, 3)", [2**64 - 1]),
        (pa.uint64(), [1, 2**64 - 1], "x > 18446744073709551614", [2**64 - 1]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b"], "x = 'b'", ["b"]),
        (pa.large_string(), ["a", "b"], "x in ('b', 'c')", ["b"]),
        (pa.binary(2), [b"ab", b"cd"], "x = 'cd'", [b"cd"]),
        (pa.timestamp("ns"), [0, 1, 2], "x > '1970-01-01T00:00:00.000000001'", [2]),
    ],
)
def test_columns_of_other_types_are_compared(
    kind: pa.DataType, values: list, text: str, expected: list
) -> None:
    table = pa.table({"x": pa.array(values, kind)})
    found = kept(table, text)["x"]
    if pa.types.is_timestamp(kind):
        found = found.cast(pa.int64())
    assert found.to_pylist() == expected


def test_lists_have_nothing_to_compare_with() -> None:
    schema = pa.schema([("x", pa.list_(pa.int64()))])
    with pytest.raises(FilterError, match=r"column 'x' is of type list.*, whose values cannot be compared"):
        parse_filter("x = 'a'", schema)
    parse_filter("x is not null", schema)
