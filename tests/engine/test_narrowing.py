"""Rows travel with narrow integers, and arrive as they were."""

from __future__ import annotations

import pyarrow as pa
from hipslake.engine.narrowing import gathered, narrowed, widened
from hypothesis import given
from hypothesis import strategies as st

SCHEMA = pa.schema([("n", pa.int64()), ("short", pa.int16()), ("v", pa.float64()), ("s", pa.string())])
INTEGERS = st.one_of(
    st.none(), *(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64))
)
BATCH = st.lists(st.tuples(INTEGERS, st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=2)))


@given(batches=st.lists(BATCH, max_size=4))
def test_what_is_narrowed_and_gathered_is_what_it_was(batches: list[list[tuple[object, ...]]]) -> None:
    given = [
        pa.record_batch([[row[at] for row in rows] for at in range(len(SCHEMA))], schema=SCHEMA)
        for rows in batches
    ]
    found = widened(gathered([narrowed(batch) for batch in given], SCHEMA), SCHEMA)
    assert found.schema.equals(SCHEMA)
    assert found.to_pylist() == [row for batch in given for row in batch.to_pylist()]


def test_an_integer_takes_the_bytes_that_it_needs() -> None:
    for bound, kind in ((127, pa.int8()), (128, pa.int16()), (1 << 15, pa.int32()), (1 << 31, pa.int64())):
        assert narrowed(pa.record_batch({"n": [0, bound]})).schema.types == [kind]
        assert narrowed(pa.record_batch({"n": [-bound - 1]})).schema.types == [
            {127: pa.int8(), 128: pa.int16(), 1 << 15: pa.int32(), 1 << 31: pa.int64()}[bound]
        ]
