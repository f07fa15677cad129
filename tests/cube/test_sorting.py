"""Tables are sorted as Arrow sorts them, whatever their columns hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.cube.sorting import sorted_by
from hypothesis import given
from hypothesis import strategies as st

KINDS: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.int64(), st.integers(-2, 2)),
    (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text("aBä\u4e00", max_size=2)),
    (pa.binary(), st.binary(max_size=2)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.integers(-(1 << 62), 1 << 62)),
    (pa.float64(), st.floats(allow_nan=False, width=16)),
    (pa.int64(), st.one_of(st.none(), st.integers(0, 2))),
    (pa.int64(), st.just(7)),
]


@st.composite
def tables(draw: Any) -> pa.Table:
    rows = draw(st.integers(0, 12))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    columns = {
        f"c{at}": pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind)
        for at, (kind, values) in enumerate(kinds)
    }
    table = pa.table({**columns, "row": pa.array(range(rows), pa.int64())})
    cut = draw(st.integers(0, rows))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


@given(table=tables())
def test_rows_come_in_the_order_of_the_columns_and_equal_ones_in_their_own(table: pa.Table) -> None:
    columns = table.column_names[:-1]
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in columns])
    assert sorted_by(table, columns).equals(table.take(order))


@pytest.mark.parametrize("wide", [0, 1 << 40, 1 << 62])
def test_columns_of_any_width_are_sorted_together(wide: int) -> None:
    """Three columns of which each alone may fill the 63 bits that are sorted at once."""
    values = [(a * wide + b, b * wide - a, -c * wide) for a in (1, 0) for b in (1, 0) for c in (0, 1)]
    table = pa.table(dict(zip("abc", zip(*values, strict=True), strict=True)))
    found = sorted_by(table, ["a", "b", "c"])
    assert list(zip(*found.to_pydict().values(), strict=True)) == sorted(values)
