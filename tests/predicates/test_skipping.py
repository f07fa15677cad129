"""What may be skipped, by bounds and by Parquet's statistics, holds no row that passes."""

from __future__ import annotations

import io
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake.predicates.binding import check_predicate
from hipslake.predicates.evaluation import passing
from hipslake.predicates.filter_text import parse_filter
from hipslake.predicates.pruning import KnownValues, may_pass, pushed_down, surely_passes
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

SIGNS = ("=", "!=", "<", "<=", ">", ">=")


@st.composite
def predicates(draw: st.DrawFn, depth: int = 3) -> str:
    """Texts on columns f (doubles), g (floats), n (integers), s (texts) and b (booleans)."""
    if depth == 0 or draw(st.booleans()):
        number = draw(st.sampled_from(["-1", "0", "-0.0", "1", "1.5", "0.1", "2", "1e30"]))
        sign = draw(st.sampled_from(SIGNS))
        return draw(
            st.sampled_from(
                [
                    f"{draw(st.sampled_from('fgn'))} {sign} {number}",
                    f"s {sign} '{draw(st.sampled_from('abc'))}'",
                    f"{draw(st.sampled_from('fgnsb'))} is null",
                    f"{draw(st.sampled_from('fg'))} is nan",
                    f"{draw(st.sampled_from('fgn'))} in ({number}, 2, 0.1)",
                    f"{draw(st.sampled_from('fgn'))} between 0 and {number}",
                    "f < g",
                    "b",
                ]
            )
        )
    if draw(st.booleans()):
        return f"not ({draw(predicates(depth - 1))})"
    parts = [draw(predicates(depth - 1)) for _ in range(2)]
    return f"({parts[0]}) {draw(st.sampled_from(['and', 'or']))} ({parts[1]})"


ROW = st.tuples(
    st.sampled_from([None, math.nan, 0.0, -0.0, 1.0, 1.5, 0.1, math.inf, -math.inf]),
    st.sampled_from([None, math.nan, 0.0, -0.0, 1.0, 0.1]),
    st.sampled_from([None, 0, 1, 2, -1, 2**62]),
    st.sampled_from([None, "a", "b", "bb"]),
    st.sampled_from([None, True, False]),
)
SCHEMA = pa.schema(
    [("f", pa.float64()), ("g", pa.float32()), ("n", pa.int64()), ("s", pa.string()), ("b", pa.bool_())]
)


@given(
    text=predicates(),
    rows=st.lists(ROW, min_size=1, max_size=12),
    size=st.integers(1, 4),
    statistics=st.booleans(),
    nan_is_null=st.booleans(),
)
@settings(max_examples=examples(600))
def test_what_is_skipped_holds_no_row_that_passes(
    text: str, rows: list[tuple[Any, ...]], size: int, statistics: bool, nan_is_null: bool
) -> None:
    predicate = parse_filter(text, SCHEMA)
    if nan_is_null and " is nan" in text:
        return
    check_predicate(predicate, SCHEMA, nan_is_null=nan_is_null)
    table = pa.Table.from_arrays(
        [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(SCHEMA)], schema=SCHEMA
    ).append_column("at", pa.array(range(len(rows))))
    expected = passing(predicate, table, nan_is_null=nan_is_null)["at"].to_pylist()
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=size, write_statistics=statistics)
    fragment = ds.ParquetFileFormat().make_fragment(pa.py_buffer(sink.getvalue()))
    skipping = pushed_down(predicate, SCHEMA, fragment.physical_schema, nan_is_null=nan_is_null)
    read = fragment.to_table(filter=skipping)
    assert passing(predicate, read, nan_is_null=nan_is_null)["at"].to_pylist() == expected
    met = table if skipping is None else table.filter(skipping)
    assert passing(predicate, met, nan_is_null=nan_is_null)["at"].to_pylist() == expected
    known = {field.name: known_of(table[field.name]) for field in SCHEMA}
    assert may_pass(predicate, known, SCHEMA, nan_is_null=nan_is_null) or not expected
    assert may_pass(predicate, {}, SCHEMA, nan_is_null=nan_is_null) or not expected
    if surely_passes(predicate, known, SCHEMA, nan_is_null=nan_is_null):
        assert expected == list(range(len(rows)))


def known_of(column: pa.ChunkedArray) -> KnownValues:
    """What statistics say: NaN is left out of the bounds."""
    values = [each for each in column.to_pylist() if each is not None and each == each]
    return KnownValues(min(values, default=None), max(values, default=None), column.null_count, len(column))


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("n < 200", 2),
        ("n >= 950", 1),
        ("n = 555", 1),
        ("n in (5, 805)", 2),
        ("n between 300 and 399", 1),
        ("not n < 900", 1),
        ("f < 100", 1),
        ("g >= 900", 1),
        ("s < 's100'", 1),
        ("n < 100 or f >= 900", 2),
        ("n < -1", 0),
        ("n < 100 and f >= 900", 0),
        ("t >= '1970-01-01T00:15:00'", 1),
        ("d < '1970-04-11'", 1),
        ("u >= 18446744073709551516", 1),
        ("n is null", 0),
        ("f is not null", 10),
    ],
)
def test_row_groups_are_skipped_by_their_statistics(text: str, groups: int) -> None:
    numbers = pa.array(range(1000), pa.int64())
    table = pa.table(
        {
            "n": numbers,
            "f": numbers.cast(pa.float64()),
            "g": numbers.cast(pa.float32()),
            "s": [f"s{number:03}" for number in range(1000)],
            "t": numbers.cast(pa.timestamp("s")).cast(pa.timestamp("us")),
            "d": numbers.cast(pa.int32()).cast(pa.date32()),
            "u": pa.array([2**64 - 1000 + number for number in range(1000)], pa.uint64()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=100)
    fragment = ds.ParquetFileFormat().make_fragment(pa.py_buffer(sink.getvalue()))
    skipping = pushed_down(parse_filter(text, table.schema), table.schema, fragment.physical_schema)
    read = fragment if skipping is None else fragment.subset(skipping)
    assert len(read.row_groups) == groups


def test_columns_that_a_file_lacks_are_null() -> None:
    stored = pa.schema([("n", pa.int64())])
    for text, skips in (
        ("f < 1", True),
        ("f is null", False),
        ("n < 1 or f < 1", False),
        ("not f = 1", True),
    ):
        found = pushed_down(parse_filter(text, SCHEMA), SCHEMA, stored)
        assert (found is not None and found.equals(pc.scalar(False))) is skips, text
