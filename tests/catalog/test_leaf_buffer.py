"""Memory that leaf files are encoded into: bytes and digest are those of what was written, at every use."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog import leaf_buffer
from hipslake.catalog.leaf_buffer import LeafBuffer


@pytest.fixture(autouse=True)
def none_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaf_buffer, "_spare", [])


@pytest.mark.parametrize("seed", range(5))
def test_what_was_written_is_there(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaf_buffer, "_FIRST_BYTES", 16)
    rng = np.random.default_rng(seed)
    for _ in range(4):  # the same memory, but for the first time
        buffer = LeafBuffer.taken()
        written = b""
        assert buffer.content.size == buffer.tell() == 0
        for size in rng.integers(0, 300, 20).tolist():
            part = rng.bytes(size)
            content = (part, memoryview(part), pa.py_buffer(part))[size % 3]
            assert buffer.write(content) == size
            written += part
            assert buffer.tell() == len(written)
        assert buffer.content.to_pybytes() == written
        assert buffer.sha256 == hashlib.sha256(written).hexdigest()
        buffer.give_back()
    assert leaf_buffer._spare == [buffer]


def test_arrow_writes_into_it_as_into_a_file() -> None:
    table = pa.table({"a": np.arange(100_000), "b": np.random.default_rng(1).random(100_000)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=30_000)
    buffer = LeafBuffer()
    pq.write_table(table, pa.PythonFile(buffer, mode="w"), row_group_size=30_000)
    assert buffer.content.equals(sink.getvalue())
    assert buffer.sha256 == hashlib.sha256(sink.getvalue()).hexdigest()


def test_one_that_is_in_use_is_given_to_nobody_else() -> None:
    first, second = LeafBuffer.taken(), LeafBuffer.taken()
    first.write(b"first")
    second.write(b"second")
    assert first.content.to_pybytes() == b"first"
    first.give_back()
    third = LeafBuffer.taken()
    assert third is first
    assert LeafBuffer.taken() is not first
    assert second.content.to_pybytes() == b"second"


def test_a_process_keeps_few_and_none_that_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = [LeafBuffer.taken() for _ in range(9)]
    for buffer in taken:
        buffer.give_back()
    assert len(leaf_buffer._spare) == leaf_buffer._MOST_SPARE
    monkeypatch.setattr(leaf_buffer, "_spare", [])
    monkeypatch.setattr(leaf_buffer, "_MOST_SPARE_BYTES", leaf_buffer._FIRST_BYTES)
    large = LeafBuffer()
    large.write(bytes(leaf_buffer._FIRST_BYTES + 1))
    large.give_back()
    assert leaf_buffer._spare == []
