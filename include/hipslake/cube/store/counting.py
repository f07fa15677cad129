"""The first pass over the rows: keys are checked, and rows counted per partition, before anything is written.

The counts say which task of the second pass writes which partition. Duplicate cells are found by the hashes
of all cells: tasks that read keys send each hash to the task that has its share of all hashes. What is equal
there may be a duplicate; those few rows are read again and compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.clustering.checksum import row_hashes
from hipslake.cube.cube_rules import check_cells, check_no_nulls
from hipslake.cube.sorting import sorted_by
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
    twice = found.filter(pc.invert(is_count))
    for number in sorted(twice[DATASET].unique().to_pylist()):
        mine = twice.filter(pc.equal(twice[DATASET], number))
        check_repeated(offers[number], pc.sum(mine[COUNT]).as_py(), mine[HASH].to_numpy(), engine)
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


def _counts(rows: pa.Table, offer: Offer, number: int, schema: pa.Schema) -> pa.Table:
    cut = list(offer.partition_columns)
    found = pa.table({COUNT: [rows.num_rows]})
    if cut:
        found = rows.select(cut).group_by(cut, use_threads=False).aggregate([([], "count_all")])
        found = found.rename_columns([*cut, COUNT])
    columns = [
        found[field.name] if field.name in found.column_names else pa.nulls(found.num_rows, field.type)
        for field in schema
    ]
    columns[0] = pa.repeat(pa.scalar(number, pa.int32()), found.num_rows)
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


HASH = "__hash"
PARTS_PER_SHARE = 16
"""How many parts of a source there are for each share of the hashes: of parts of a million rows, 128 MB."""

_HASHES = pa.schema([(HASH, pa.int64())])
_FACTORS = np.random.default_rng(29).integers(1 << 62, 1 << 63, 64, np.uint64) * np.uint64(2) + np.uint64(1)
_TOLD = 100  # of the hashes that come twice in a share; to show one cell takes one

Hashes = NDArray[np.int64]


def shares_of(offer: Offer) -> int:
    """Into how many shares the hashes of an offer are cut."""
    return -(-offer.source.parts // PARTS_PER_SHARE)


def cell_hashes(rows: pa.Table, offer: Offer) -> Hashes:
    """A hash of the cell of each row, int64[n]; equal cells have equal ones.

    The sum of the values, each times a large odd number of its column, modulo 2^64: two cells of different
    integers have one hash only if their differences are in the ratio of these numbers.
    """
    hashes = np.zeros(rows.num_rows, np.uint64)
    for name, factor in zip(offer.cell, _FACTORS, strict=False):
        column = rows.column(name)
        if pa.types.is_signed_integer(column.type):
            hashes += column.to_numpy().astype(np.int64, copy=False).view(np.uint64) * factor
        else:
            hashes += row_hashes(rows.select([name])) * factor
    return hashes.view(np.int64)


def dealt(hashes: Hashes, shares: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The hashes of each share."""
    share = ((hashes.view(np.uint64) >> np.uint64(32)) % np.uint64(shares)).astype(np.uint16)
    order = np.argsort(share, kind="stable")  # of 16 bits: without a comparison
    bounds = np.concatenate([[0], np.cumsum(np.bincount(share, minlength=shares))])
    ranked = hashes[order] if shares > 1 else hashes
    for number in range(shares):
        mine = ranked[bounds[number] : bounds[number + 1]]
        if len(mine):
            yield number, pa.record_batch([pa.array(mine)], schema=_HASHES)


def repeated(blocks: list[Block]) -> tuple[int, Hashes]:
    """How many hashes of a share come more than once, and some of them."""
    hashes = np.concatenate([block.rows.column(0).to_numpy() for block in blocks])
    blocks.clear()
    hashes.sort()
    again = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    return len(again), again[:_TOLD]


def check_repeated(offer: Offer, cells: int, hashes: Hashes, engine: Engine) -> None:
    """Read the rows whose cells have some hashes again, and refuse cells that come twice.

    Parameters
    ----------
    offer : Offer
    cells : int
        How many hashes come more than once.
    hashes : int64[n]
        Some of them.
    engine : Engine

    Raises
    ------
    CubeRowsError
    """

    def send(part: int) -> Iterator[Routed]:
        for rows in offer.rows(part):
            found = np.isin(cell_hashes(rows, offer), hashes)
            for batch in rows.filter(pa.array(found)).to_batches():
                yield 0, batch

    def check(target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches([block.rows for block in blocks], offer.schema)
        check_cells(offer.name, rows, offer.cell, cells=cells)
        yield from ()

    engine.exchange(sources=offer.source.parts, mapper=send, targets=1, reducer=check, result=_HASHES)
