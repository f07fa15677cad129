"""Rows of stretches of many batches, in any order: as Arrow takes them from all stretches together."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hipslake.engine.gathering import Gathering

PLAIN = [
    *(pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns")),
    *(pa.timestamp("ms", "UTC"), pa.duration("us")),
]
OTHERS = [pa.bool_(), pa.decimal128(9, 2), pa.decimal32(5, 2), pa.month_day_nano_interval(), pa.null()]


def values(kind: pa.DataType, rows: int, rng: np.random.Generator, nulls: float) -> pa.Array:
    """Values of any bits, so also NaNs that carry something."""
    mask = rng.random(rows) < nulls
    if kind in PLAIN:
        bits = pa.py_buffer(rng.bytes(rows * kind.bit_width // 8))
        validity = pa.array(~mask).buffers()[1] if nulls else None
        return pa.Array.from_buffers(kind, rows, [validity, bits])
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_boolean(kind):
        return pa.array(rng.random(rows) < 0.5, mask=mask)
    if pa.types.is_interval(kind):
        return pa.array([None if null else (1, int(n), 3) for n, null in enumerate(mask)], kind)
    return pa.array([None if null else Decimal(n) / 4 for n, null in enumerate(mask)], kind)


def bits_of(column: pa.ChunkedArray) -> list[object]:
    """Values as they lie in memory, None for nulls; equal NaNs are equal."""
    column = column.combine_chunks()
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    if array.type not in PLAIN:
        return list(array.to_pylist())
    width = f"u{array.type.bit_width // 8}"
    found = np.frombuffer(array.buffers()[1], width)[array.offset : array.offset + len(array)].tolist()
    valid = array.is_valid().to_pylist()
    return [value if there else None for value, there in zip(found, valid, strict=True)]


@pytest.mark.parametrize("seed", range(30))
def test_rows_are_those_that_arrow_takes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = {f"{number}": kind for number, kind in enumerate(PLAIN + OTHERS)}
    kinds["text"] = pa.string()
    batches = []
    for _ in range(int(rng.integers(1, 6))):
        rows = int(rng.integers(0, 40))
        nulls = {name: float(rng.choice([0, 0, 0.3, 1])) for name in kinds}
        columns = {
            name: pa.array([f"t{n}" for n in range(rows)], pa.string())
            if name == "text"
            else values(kind, rows, rng, nulls[name])
            for name, kind in kinds.items()
        }
        batch = pa.record_batch(columns)
        batches.append(batch.slice(int(rng.integers(0, rows + 1)) // 2))  # not all begin where buffers do
    gathering = Gathering(batches)
    sizes = np.array([batch.num_rows for batch in batches])
    for _ in range(3):
        first = rng.integers(0, sizes + 1)
        counts = rng.integers(0, sizes - first + 1)
        stretches = [
            batch.slice(at, count)
            for batch, at, count in zip(batches, first.tolist(), counts.tolist(), strict=True)
        ]
        together = pa.Table.from_batches(stretches)
        if not together.num_rows:
            continue
        order = rng.permutation(together.num_rows)
        found = gathering.rows(first, counts, order)
        found.validate(full=False)
        expected = together.combine_chunks().take(pa.array(order))
        assert found.schema == expected.schema
        for name in kinds:
            assert bits_of(found[name]) == bits_of(expected[name]), kinds[name]
