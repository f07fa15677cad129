"""Rows to route, and the plainest account of where each must arrive. Imported by Spark's workers too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from hipslake.engine.model import Block, Routed
from hipslake.errors import CorruptFileError
from pyspark import TaskContext

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("list", pa.list_(pa.int32())),
        ("pair", pa.struct([("a", pa.float64()), ("b", pa.string())])),
        ("word", pa.dictionary(pa.int16(), pa.string())),
        ("flag", pa.bool_()),
    ]
)
RESULT = "target int, place int, id bigint, text string, words int"


@dataclass(frozen=True)
class Case:
    """Per map task, the target and the width of each of its rows, in source order.

    A row is made of its own number alone, so that what arrives can be told from what was sent.
    """

    sources: tuple[tuple[tuple[int, int], ...], ...]
    batch_rows: int = 7

    def route(self, source: int) -> Iterator[Routed]:
        """What a map task yields: runs of rows with one target, in batches."""
        first = sum(len(rows) for rows in self.sources[:source])
        rows = [(first + at, *row) for at, row in enumerate(self.sources[source])]
        for start in range(0, len(rows), self.batch_rows):
            batch = made([(number, width) for number, _, width in rows[start : start + self.batch_rows]])
            at = 0
            for target, run in groupby(rows[start : start + self.batch_rows], key=lambda row: row[1]):
                count = len(list(run))
                yield (
                    target,
                    batch.slice(at, count),
                )  # a view of more rows than it holds, as the jobs have them
                at += count

    def expected(self) -> dict[int, list[int]]:
        """Per target, the numbers of its rows in source order."""
        arrived: dict[int, list[int]] = {}
        number = 0
        for rows in self.sources:
            for target, _ in rows:
                arrived.setdefault(target, []).append(number)
                number += 1
        return arrived

    def widths(self) -> list[int]:
        """Width of every row."""
        return [width for rows in self.sources for _, width in rows]


def made(rows: Iterable[tuple[int, int]]) -> pa.RecordBatch:
    """Rows of (number, width), each of them with nulls where the number says so."""
    return pa.RecordBatch.from_pylist([row(number, width) for number, width in rows], schema=SCHEMA)


def row(number: int, width: int) -> dict[str, object]:
    """One row."""
    return {
        "id": number,
        "text": None if number % 5 == 3 else chr(97 + number % 26) * width,
        "list": None if number % 7 == 2 else [number, None, *range(number % 4)],
        "pair": None if number % 6 == 1 else {"a": number / 3, "b": str(number)},
        "word": None if number % 4 == 1 else f"word {number % 9}",
        "flag": None if number % 3 == 1 else number % 2 == 0,
    }


def described(target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
    """What a reduce task got: a row for every row, in the order of arrival."""
    table = pa.Table.from_batches([block.rows for block in blocks])
    yield pa.record_batch(
        {
            "target": pa.array([target] * table.num_rows, pa.int32()),
            "place": pa.array(range(table.num_rows), pa.int32()),
            "id": table["id"].combine_chunks(),
            "text": table["text"].combine_chunks(),
            "words": pa.array([len(table["word"].chunk(0).dictionary)] * table.num_rows, pa.int32()),
        }
    )


def one_row_to_each(source: int) -> Iterator[Routed]:
    """A row for each of 12 targets."""
    for target in range(12):
        yield target, made([(target, 1)])


def task_of(target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
    """The Spark task that a target was given to."""
    context = TaskContext.get()
    assert context is not None
    yield pa.record_batch(
        {"target": pa.array([target], pa.int32()), "task": pa.array([context.partitionId()], pa.int32())}
    )


def numbers_below(task: int) -> Iterator[pa.RecordBatch]:
    """As many numbers as the task's own."""
    yield pa.record_batch({"number": pa.array(range(task), pa.int64())})


def damaged(task: int, what: str) -> Iterator[pa.RecordBatch]:
    """Fails in one of the tasks, as readers do: from an error of another library."""
    if task:
        try:
            raise OSError("as pyarrow says it")
        except OSError as error:
            raise CorruptFileError(what) from error
    yield from numbers_below(task)
