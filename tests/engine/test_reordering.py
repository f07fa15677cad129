"""Rows in another order, of tables that are larger than what is gathered at once."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake.engine.reordering import in_order, in_sort_order
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

TEXT = st.text(max_size=40)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.binary(), st.binary(max_size=40)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.list_(pa.string()), st.lists(TEXT, max_size=3)),
    (pa.large_list(pa.int8()), st.lists(st.integers(-9, 9), max_size=5)),
    (pa.list_(pa.string(), 2), st.lists(TEXT, min_size=2, max_size=2)),
    (pa.map_(pa.string(), pa.string()), st.lists(st.tuples(TEXT, TEXT), max_size=3)),
    (
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.binary()))]),
        st.fixed_dictionaries({"a": TEXT, "b": st.lists(st.binary(max_size=9), max_size=2)}),
    ),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from("abc")),
    (pa.uuid(), st.binary(min_size=16, max_size=16)),
    (pa.null(), st.none()),
    (pa.struct([("n", pa.null())]), st.just({"n": None})),
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Columns of several types in several chunks, cut from longer ones."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    schema = pa.schema([(f"c{at}", kind) for at, (kind, _) in enumerate(kinds)])
    batches = []
    for rows in draw(st.lists(st.integers(0, 12), max_size=4)):
        skipped = draw(st.integers(0, 2))
        size = rows + skipped
        columns = [
            pa.array(draw(st.lists(values | st.none(), min_size=size, max_size=size)), kind)
            for kind, values in kinds
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema).slice(skipped))
    return pa.Table.from_batches(batches, schema)


@given(table=tables(), data=st.data(), largest=st.sampled_from([1, 50, 300, 10**6]))
@settings(max_examples=examples(300))
def test_rows_come_in_the_order_whatever_is_gathered_at_once(
    table: pa.Table, data: st.DataObject, largest: int
) -> None:
    rows = table.num_rows
    some = st.lists(st.integers(0, rows - 1)) if rows else st.just([])
    chosen = data.draw(st.permutations(range(rows)) | some)
    found = in_order(table, np.array(chosen, np.int64), largest)
    values = table.to_pylist()
    assert found.to_pylist() == [values[at] for at in chosen]
    assert found.schema == table.schema


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.list_(pa.string())])
def test_no_piece_is_larger_than_it_may_be(kind: pa.DataType) -> None:
    """Texts of very different lengths, of which the long ones come together."""
    texts = ["x" * (1000 if number % 7 == 0 else 3) for number in range(700)]
    column = pa.array([[text] for text in texts] if pa.types.is_list(kind) else texts).cast(kind)
    table = pa.Table.from_batches([pa.record_batch({"t": column.slice(at, 70)}) for at in range(0, 700, 70)])
    order = np.argsort([-len(text) for text in texts], kind="stable")
    found = in_order(table, order, 40_000)
    assert found.to_pylist() == [table.to_pylist()[at] for at in order]
    assert max(batch.nbytes for batch in found.to_batches()) <= 10_000 + 1_100
    assert len(found.to_batches()) < 80


def test_a_table_is_sorted_as_arrow_does_it() -> None:
    table = pa.table({"k": [3, 1, None, 2, 1], "t": ["c", "b", "x", None, "a"]})
    keys = [("k", "ascending"), ("t", "descending")]
    assert in_sort_order(table, keys, 1).to_pylist() == table.sort_by(keys).to_pylist()


@pytest.mark.parametrize("kind", [pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(20, 2)], ids=str)
@pytest.mark.parametrize("names", [["d"], ["k", "d"], ["d", "k"]])
def test_decimals_of_every_width_are_sorted_as_python_sorts_them(kind: pa.DataType, names: list[str]) -> None:
    rng = np.random.default_rng(3)
    values = [Decimal(int(number)).scaleb(-2) for number in rng.integers(-500, 500, 200)]
    table = pa.table({"k": rng.integers(0, 4, 200), "d": pa.array(values, kind)})
    expected = sorted(table.to_pylist(), key=lambda row: [row[name] for name in names])
    assert in_sort_order(table, [(name, "ascending") for name in names]).to_pylist() == expected
