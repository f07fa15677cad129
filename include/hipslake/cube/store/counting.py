"""The first pass over what is offered: keys are checked, and rows counted per partition.

So a null in a key, or a cell that comes twice, is told before anything is written, and the second pass knows
which task writes what.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.cube_rules import check_no_nulls
from hipslake.cube.sorting import sorted_by
from hipslake.cube.store.cells import HASH, cell_hashes, check_repeated, dealt, repeated, shares_of
from hipslake.cube.store.offers import Offer
from hipslake.engine.model import Block, Engine, Routed, Scratch
from hipslake.errors import CubeRowsError

DATASET, COUNT, TARGET = "__dataset", "__rows", "__target"
TASK_ROWS = 4_000_000
"""About the most rows that one task writes, unless a partition has more."""


@dataclass(frozen=True)
class Counting:
    """Both halves of the exchange that counts; a map task for each part of every offer.

    The first reduce task gets the counts, the others a share of the hashes of the cells of one offer each.
    """

    offers: tuple[Offer, ...]

    @property
    def tasks(self) -> int:
        """How many map tasks."""
        return sum(each.source.parts for each in self.offers)

    @property
    def targets(self) -> list[int]:
        """The first reduce task of each offer, and after them how many there are."""
        return list(accumulate((shares_of(each) for each in self.offers), initial=1))

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

    @property
    def result(self) -> pa.Schema:
        """Of what reduce tasks give: counts; or hashes that come twice, the first with how many there are."""
        return self.schema.append(pa.field(HASH, pa.int64()))

    def send(self, task: int) -> Iterator[Routed]:
        """The counts and the hashes of a part; raises `CubeRowsError` where a key is null."""
        number, part = self.place(task)
        offer, first = self.offers[number], self.targets[number]
        for rows in offer.rows(part, offer.keys):
            check_no_nulls(offer.cube, offer.name, rows, offer.partition_columns)
            if rows.num_rows:
                for batch in _counts(rows, offer, number, self.schema).to_batches():
                    yield 0, batch
                for share, hashes in dealt(cell_hashes(rows, offer), shares_of(offer)):
                    yield first + share, hashes

    def gather(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """The counts of all parts, or what comes twice of a share of the hashes."""
        if target == 0:
            counts = pa.Table.from_batches([block.rows for block in blocks], self.schema)
            nothing = pa.nulls(counts.num_rows, pa.int64())
            yield from counts.append_column(self.result.field(HASH), nothing).to_batches()
            return
        cells, hashes = repeated(blocks)
        if cells:
            number = bisect_right(self.targets, target) - 1
            columns = [pa.nulls(len(hashes), field.type) for field in self.result]
            columns[0] = pa.repeat(pa.scalar(number, pa.int32()), len(hashes))
            columns[-2:] = [pa.array([cells] + [0] * (len(hashes) - 1)), pa.array(hashes)]
            yield pa.record_batch(columns, schema=self.result)


def counted(
    offers: Sequence[Offer],
    engine: Engine,
    may_be_empty: Collection[str] = (),
    *,
    scratch: Scratch | None = None,
) -> pa.Table:
    """Rows per offer and partition, in the order of the partitions, and which task of the second pass has
    them.

    Parameters
    ----------
    offers : sequence of Offer
    engine : Engine
    may_be_empty : collection of str
        Names of datasets whose offer may have no rows.
    scratch : Scratch, optional
        Where hashes of cells may wait.

    Raises
    ------
    CubeRowsError
        A key is null, a cell comes twice, or an offer has no rows.
    """
    work = Counting(tuple(offers))
    found = work.result.empty_table()
    if work.tasks:
        with engine.progress("count the cells"):
            found = engine.exchange(
                sources=work.tasks,
                mapper=work.send,
                targets=work.targets[-1],
                reducer=work.gather,
                result=work.result,
                scratch=scratch,
            )
    is_count = pc.is_null(found[HASH])
    _check_cells(work.offers, found.filter(pc.invert(is_count)), engine)
    found = found.filter(is_count).drop_columns([HASH])
    names = [name for name in work.schema.names if name != COUNT]
    total = found.group_by(names, use_threads=False).aggregate([(COUNT, "sum")])
    total = total.select([*names, f"{COUNT}_sum"]).rename_columns([*names, COUNT])
    present = total[DATASET].unique().to_pylist()
    empty = [each.name for number, each in enumerate(offers) if number not in present]
    empty = [name for name in empty if name not in may_be_empty]
    if empty:
        raise CubeRowsError(f"dataset {', '.join(map(repr, empty))} has no rows; a dataset begins with some")
    ordered = sorted_by(total, names)
    return ordered.append_column(TARGET, pa.array(_targets(ordered, engine.cores)))


def _check_cells(offers: Sequence[Offer], found: pa.Table, engine: Engine) -> None:
    """Look at the cells whose hashes come twice."""
    for number in sorted(found[DATASET].unique().to_pylist()):
        mine = found.filter(pc.equal(found[DATASET], number))
        check_repeated(offers[number], pc.sum(mine[COUNT]).as_py(), mine[HASH].to_numpy(), engine)


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
