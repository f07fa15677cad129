"""The first pass over what is offered: keys are checked, and rows counted per partition.

So a null in a key is told before anything is written, and the second pass knows which task writes what.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.cube.checks import check_no_nulls
from hipslake.cube.keys import sorted_by
from hipslake.cube.store.offers import Offer
from hipslake.engine.model import Engine
from hipslake.errors import CubeRowsError

DATASET, COUNT, TARGET = "__dataset", "__rows", "__target"
TASK_ROWS = 4_000_000
"""About the most rows that one task writes, unless a partition has more."""


@dataclass(frozen=True)
class Counting:
    """The tasks that count; one per part of every offer."""

    offers: tuple[Offer, ...]

    @property
    def tasks(self) -> int:
        """How many."""
        return sum(each.source.parts for each in self.offers)

    def place(self, task: int) -> tuple[int, int]:
        """The offer and the part of a task."""
        for number, each in enumerate(self.offers):
            if task < each.source.parts:
                return number, task
            task -= each.source.parts
        raise ValueError(f"there is no task {task}")

    @property
    def schema(self) -> pa.Schema:
        """Of what a task gives: the offer, the partition columns (null where it has none), and rows."""
        types = {each.name: each.type for offer in self.offers for each in offer.schema}
        cube = self.offers[0].cube
        columns = [(name, types.get(name, pa.null())) for name in cube.partition_columns]
        return pa.schema([(DATASET, pa.int32()), *columns, (COUNT, pa.int64())])

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        number, part = self.place(task)
        offer = self.offers[number]
        for rows in offer.rows(part, offer.keys):
            check_no_nulls(offer.cube, offer.name, rows, offer.partition_columns)
            yield from _counts(rows, offer, number, self.schema).to_batches()


def counted(offers: Sequence[Offer], engine: Engine, may_be_empty: Collection[str] = ()) -> pa.Table:
    """Rows per offer and partition, in the order of the partitions, and which task of the second pass has
    them.

    Parameters
    ----------
    offers : sequence of Offer
    engine : Engine
    may_be_empty : collection of str
        Names of datasets whose offer may have no rows.

    Raises
    ------
    CubeRowsError
        A key is null, or an offer has no rows.
    """
    work = Counting(tuple(offers))
    found = engine.run(work, tasks=work.tasks, result=work.schema)
    names = [name for name in work.schema.names if name != COUNT]
    total = found.group_by(names, use_threads=False).aggregate([(COUNT, "sum")])
    total = total.select([*names, f"{COUNT}_sum"]).rename_columns([*names, COUNT])
    present = set(total[DATASET].to_pylist())
    empty = [each.name for number, each in enumerate(offers) if number not in present]
    empty = [name for name in empty if name not in may_be_empty]
    if empty:
        raise CubeRowsError(f"dataset {', '.join(map(repr, empty))} has no rows; a dataset begins with some")
    ordered = sorted_by(total, names)
    return ordered.append_column(TARGET, pa.array(_targets(ordered, engine.cores)))


def _counts(rows: pa.Table, offer: Offer, number: int, schema: pa.Schema) -> pa.Table:
    cut = list(offer.partition_columns)
    if cut:
        found = rows.select(cut).group_by(cut, use_threads=False).aggregate([([], "count_all")])
        sizes = found["count_all"]
    elif rows.num_rows:
        found, sizes = rows.slice(0, 1), pa.array([rows.num_rows])
    else:
        return schema.empty_table()
    columns = [
        found.column(field.name) if field.name in cut else pa.nulls(len(sizes), field.type)
        for field in schema
    ]
    columns[0] = pa.repeat(pa.scalar(number, pa.int32()), len(sizes))
    columns[-1] = sizes.cast(pa.int64())
    return pa.table(columns, schema=schema)


def _targets(counts: pa.Table, cores: int) -> np.ndarray:
    """Runs of partitions of one dataset with about equal rows, enough for all cores."""
    rows = counts[COUNT].to_numpy()
    share = max(1, min(TASK_ROWS, -(-int(rows.sum()) // max(1, cores))))
    bucket = (np.cumsum(rows) - rows) // share
    dataset = counts[DATASET].to_numpy()
    begins = np.append(True, (np.diff(bucket) != 0) | (np.diff(dataset) != 0))[: len(rows)]
    targets: np.ndarray = np.cumsum(begins) - 1
    return targets
