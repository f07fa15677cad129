"""Cells that come twice, found by the hashes of all cells before anything is written.

Tasks that read keys send the hash of every cell to the task that has its share of all hashes. What is equal
there may be a cell that comes twice: those few rows are read again and compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.clustering.checksum import row_hashes
from hipslake.cube.cube_rules import check_cells
from hipslake.cube.store.offers import Offer
from hipslake.engine.model import Block, Engine, Routed

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
    work = _Rereading(offer, cells, hashes)
    engine.exchange(
        sources=offer.source.parts, mapper=work.send, targets=1, reducer=work.check, result=_HASHES
    )


@dataclass(frozen=True)
class _Rereading:
    """Both halves of the exchange that brings rows of equal hashes together."""

    offer: Offer
    cells: int
    hashes: Hashes

    def send(self, part: int) -> Iterator[Routed]:
        for rows in self.offer.rows(part):
            found = np.isin(cell_hashes(rows, self.offer), self.hashes)
            for batch in rows.filter(pa.array(found)).to_batches():
                yield 0, batch

    def check(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches([block.rows for block in blocks], self.offer.schema)
        check_cells(self.offer.name, rows, self.offer.cell, cells=self.cells)
        yield from ()
