"""In which order rows of a batch go to their files: run by run, not row by row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.model import Routed
from hipslake.errors import VerificationError
from hipslake.steps.row_routing import stable_order
from hipslake.tables.shuffle import ShufflePlan

Int64s = NDArray[np.int64]

FILE_COLUMN = "_file"
"""The column that rows bear on their way to their task: the number of their file."""


class FileRuns(NamedTuple):
    """The rows of a batch, in the order of the tasks of their files, and of these.

    Attributes
    ----------
    order : int64[n] or None
        Places in the batch; None: it has this order already.
    file : int64[r]
        The number of the file of each run.
    rows : int64[r]
        Rows of each run, at least 1.
    """

    order: Int64s | None
    file: Int64s
    rows: Int64s

    @classmethod
    def by_rank(cls, plan: ShufflePlan, value: Int64s, ranks: Int64s, totals: Int64s) -> FileRuns:
        """Cut the rows of each partition value by their ranks, as `ShufflePlan` says.

        Parameters
        ----------
        plan : ShufflePlan
        value : int64[n]
            Numbers of the partition values of rows, n > 0.
        ranks : int64[values]
            The rank of the first row of each value. Counted on for the next batch.
        totals : int64[values]
            Rows of each value in all sources.

        Raises
        ------
        VerificationError
            There are more rows of a value than its total.
        """
        count = len(totals)
        rows = np.bincount(value, minlength=count)
        there = np.flatnonzero(rows)
        first, rows = ranks[there], rows[there]
        ranks[there] += rows
        total, files = totals[there], plan.files[there]
        if (first + rows > total).any():
            raise VerificationError(
                "a source has other rows than were counted; nothing is committed. Did a source file change "
                "in mid-run? Run it again"
            )
        low, high = first * files // total, (first + rows - 1) * files // total
        each = high - low + 1
        of = np.repeat(np.arange(len(there)), each)  # the value of each run
        own = np.arange(len(of)) - np.repeat(np.cumsum(each) - each, each) + low[of]
        total, files = total[of], files[of]
        start = np.maximum(-(-own * total // files), first[of])
        stop = np.minimum(-(-(own + 1) * total // files), (first + rows)[of])
        order = None if _ascends(value) else stable_order(value, count)
        return cls(order, plan.first_file[there][of] + own, stop - start)._turned(plan)

    @classmethod
    def by_file(cls, plan: ShufflePlan, file: Int64s) -> FileRuns:
        """Put together the rows of each file; int64[n], the number of the file of each row."""
        count = plan.expected_files
        rows = np.bincount(file, minlength=count)
        there = np.flatnonzero(rows)
        order = None if _ascends(file) else stable_order(file, count)
        return cls(order, there, rows[there])._turned(plan)

    def routed(self, batch: pa.RecordBatch, plan: ShufflePlan) -> Iterator[Routed]:
        """The rows for each task, with `FILE_COLUMN` behind their own columns."""
        if self.order is not None:
            batch = pc.take(batch, pa.array(self.order), boundscheck=False)
        kind = np.min_scalar_type(max(len(plan.task) - 1, 0))
        number = pa.array(np.repeat(self.file.astype(kind), self.rows))
        schema = batch.schema.append(pa.field(FILE_COLUMN, number.type))
        marked = pa.RecordBatch.from_arrays([*batch.columns, number], schema=schema)
        target, ends = plan.task[self.file], np.cumsum(self.rows)
        last = np.flatnonzero(np.append(target[1:] != target[:-1], True))
        begin = 0
        for to, end in zip(target[last].tolist(), ends[last].tolist(), strict=True):
            yield to, marked.slice(begin, end - begin)
            begin = end

    def parts(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each run, with the number of its file."""
        if self.order is not None:
            batch = pc.take(batch, pa.array(self.order), boundscheck=False)
        begin = 0
        for file, rows in zip(self.file.tolist(), self.rows.tolist(), strict=True):
            yield file, batch.slice(begin, rows)
            begin += rows

    def _turned(self, plan: ShufflePlan) -> FileRuns:
        """The runs in the order of the tasks of their files, and of these."""
        task = plan.task[self.file]
        if _ascends(task) and _ascends(self.file):
            return self
        turn = np.lexsort((self.file, task))
        rows = self.rows[turn]
        before = (np.cumsum(self.rows) - self.rows)[turn]
        places = np.repeat(before - (np.cumsum(rows) - rows), rows) + np.arange(rows.sum())
        order = places if self.order is None else self.order[places]
        return FileRuns(order, self.file[turn], rows)


def by_file(batches: list[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each file, without `FILE_COLUMN`, of batches that `FileRuns.routed` has made."""
    parts: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        last = batch.num_columns - 1
        number, rows = batch.column(last).to_numpy(), batch.select(range(last))
        cuts = [0, *(np.flatnonzero(number[1:] != number[:-1]) + 1).tolist(), len(number)]
        for begin, end in pairwise(cuts):
            parts.setdefault(int(number[begin]), []).append(rows.slice(begin, end - begin))
    batches.clear()
    for file in sorted(parts):
        yield file, pa.Table.from_batches(parts.pop(file))


def _ascends(numbers: Int64s) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())
