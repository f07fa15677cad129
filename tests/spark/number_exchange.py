"""An exchange of a few numbers, and what has to come of it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hipslake.engine.model import Block

SOURCES, TARGETS = 5, 3
RESULT = pa.schema([("target", pa.int32()), ("n", pa.int64())])


def numbers_for(task: int, target: int) -> range:
    return range(100 * task, 100 * task + 10 * target + 1)


def send(task: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The mapper."""
    for target in (0, 2, 1):
        yield target, pa.record_batch({"n": pa.array(numbers_for(task, target))})


def receive(target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
    """The reducer."""
    for block in blocks:
        numbers = block.rows.column("n")
        yield pa.record_batch([pa.array([target] * len(numbers), pa.int32()), numbers], schema=RESULT)


def assert_all_came(found: pa.Table) -> None:
    """Each number is at its target, once."""
    told = found.sort_by([("target", "ascending"), ("n", "ascending")])
    assert list(zip(told["target"].to_pylist(), told["n"].to_pylist(), strict=True)) == [
        (target, n) for target in range(TARGETS) for task in range(SOURCES) for n in numbers_for(task, target)
    ]
