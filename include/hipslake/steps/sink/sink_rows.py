"""The rows of a sink as its tasks read them: in the columns of the table, without some, in an interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.predicates.evaluation import truth
from hipslake.specs.partition_fields import PartitionField
from hipslake.tables.order import SinkOrder
from hipslake.tables.rows import Rows
from hipslake.tables.schemas import conformed
from hipslake.tables.skipping import in_interval


@dataclass(frozen=True)
class NewRows:
    """The rows of a source as the table keeps them.

    Attributes
    ----------
    rows : Rows
    schema : pyarrow.Schema
        Of the table.
    derived : tuple of PartitionField
        Pixels that are made.
    """

    rows: Rows
    schema: pa.Schema
    derived: tuple[PartitionField, ...]

    def read(self, task: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the table, of the rows of a part."""
        given = set(self.rows.schema.names)
        made = {field.column: field.source for field in self.derived}
        needed = [name if name in given else made.get(name) for name in columns]
        wanted = pa.schema([self.schema.field(name) for name in columns])
        raw = list(dict.fromkeys(name for name in needed if name is not None and name in given))
        for batch in self.rows.read(task, raw):
            yield conformed(batch, wanted, self.derived)


@dataclass(frozen=True)
class Interval:
    """The times [start, end) of a column; no end: all from start on."""

    column: str
    start: datetime
    end: datetime | None

    @classmethod
    def of(cls, order: SinkOrder) -> Interval:
        """That of an order whose rows replace those of an interval."""
        assert order.spec.interval is not None and order.start is not None, "checked before"  # noqa: PT018
        return cls(order.spec.interval, order.start, order.end)

    def holds(self, rows: pa.RecordBatch) -> pa.Array:
        """Whether each row lies in it; null where it has no time."""
        return truth(in_interval(self.column, self.start, self.end), rows).combine_chunks()


def without(batches: Iterator[pa.RecordBatch], dropped: NDArray[np.int64] | None) -> Iterator[pa.RecordBatch]:
    """Batches without the rows at some positions (ascending) of them all."""
    if dropped is None or not len(dropped):
        yield from batches
        return
    position = 0
    for batch in batches:
        first, last = np.searchsorted(dropped, [position, position + batch.num_rows]).tolist()
        if last > first:
            stays = np.ones(batch.num_rows, bool)
            stays[dropped[first:last] - position] = False
            position += batch.num_rows
            yield batch.filter(pa.array(stays))
        else:
            position += batch.num_rows
            yield batch


def runs_of(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The stretches [first, last) of equal numbers in a sorted array of numbers from 0 on."""
    cuts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    return list(pairwise([*cuts, len(numbers)]))
