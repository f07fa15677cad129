"""The checksum of rows: what it does not see, and what it must."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hipslake.clustering.checksum import row_checksum
from hypothesis import given
from hypothesis import strategies as st

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int16(), [1, None, -1, 1, 0]),
    "double": (pa.float64(), [0.5, None, float("nan"), -0.5, 0.0]),
    "flag": (pa.bool_(), [True, None, False, True, False]),
    "text": (pa.string(), ["", None, "ab", "ba", "ü"]),
    "bytes": (pa.binary(), [b"", None, b"\0", b"\0\0", b"x"]),
    "decimal": (pa.decimal128(30, 2), [Decimal("0.01"), None, Decimal(-5), Decimal(10**20), Decimal(0)]),
    "fixed": (pa.binary(3), [b"abc", None, b"acb", b"\0\0\0", b"zzz"]),
    "list": (pa.list_(pa.int8()), [[], None, [1, 2], [2, 1], [None]]),
    "fixed list": (pa.list_(pa.float32(), 2), [[0, 1], None, [1, 0], [1, 1], [2, 2]]),
    "struct": (
        pa.struct([("x", pa.int8()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, None, {"x": 2}, {}, {"y": "a"}],
    ),
    "map": (pa.map_(pa.string(), pa.int8()), [[], None, [("a", 1)], [("a", 2)], [("b", 1)]]),
    "time": (pa.timestamp("us"), [0, None, -1, 1, 2]),
    "nothing": (pa.null(), [None] * 5),
}  # fmt: skip


def every_type() -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})


@given(st.permutations(range(5)), st.integers(0, 5))
def test_neither_order_nor_parts_of_rows_count(order: list[int], cut: int) -> None:
    rows = every_type()
    turned = rows.take(order)
    parts = [turned.slice(0, cut), turned.slice(cut)]
    assert sum(map(row_checksum, parts)) % 2**64 == row_checksum(rows)
    assert row_checksum(pa.concat_tables(parts)) == row_checksum(rows)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "nothing"])
def test_every_change_of_a_value_counts(name: str) -> None:
    kind, values = COLUMNS[name]
    rows = pa.table({"id": range(5), name: pa.array(values, kind)})
    changed = {
        repr(table): pa.table({"id": range(5), name: pa.array(table, kind)})
        for table in (
            [*values[:at], values[other], *values[at + 1 :]] for at in range(5) for other in range(5)
        )
    }
    assert len({row_checksum(table) for table in changed.values()} | {row_checksum(rows)}) == len(changed)


def test_a_row_twice_is_not_a_row_once() -> None:
    one, two = pa.table({"a": [1, 2]}), pa.table({"a": [1, 2, 2]})
    assert row_checksum(one) != row_checksum(two)


def test_values_belong_to_their_row_and_column() -> None:
    assert row_checksum(pa.table({"a": [1, 2], "b": [3, 4]})) != row_checksum(
        pa.table({"a": [1, 2], "b": [4, 3]})
    )
    assert row_checksum(pa.table({"a": [1], "b": [2]})) != row_checksum(pa.table({"a": [2], "b": [1]}))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32(), pa.date32(), pa.decimal128(12, 0), pa.string()])
def test_a_null_belongs_to_its_column(kind: pa.DataType) -> None:
    none, zero = pa.array([None], kind), pa.array([0], pa.int32()).cast(kind)
    sums = {row_checksum(pa.table([one, two], ["a", "b"])) for one in (none, zero) for two in (none, zero)}
    assert len(sums) == 4


def test_how_values_are_stored_does_not_count() -> None:
    texts = pa.array(["a", "b", None, "a"])
    plain = row_checksum(pa.table({"x": texts}))
    assert row_checksum(pa.table({"x": texts.dictionary_encode()})) == plain
    assert row_checksum(pa.table({"x": texts.cast(pa.large_string())})) == plain
    assert row_checksum(pa.table({"x": texts.cast(pa.string_view())})) == plain
    hidden = pa.array([1, 2, 3], mask=None)
    assert row_checksum(pa.table({"x": hidden.slice(1)})) == row_checksum(pa.table({"x": [2, 3]}))


def test_what_lies_below_a_null_does_not_count() -> None:
    below = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array([1, 9]).buffers()[1]])
    assert below.to_pylist() == [1, None]
    assert row_checksum(pa.table({"x": below})) == row_checksum(pa.table({"x": [1, None]}))


def test_more_rows_than_are_hashed_together_are_all_counted() -> None:
    rows = pa.table({"n": range(70_000), "text": [f"{n}" for n in range(70_000)]})
    parts = [rows.slice(at, 999) for at in range(0, 70_000, 999)]
    assert row_checksum(rows) == sum(map(row_checksum, parts)) % 2**64
    assert row_checksum(rows) != row_checksum(rows.slice(0, 69_999))
