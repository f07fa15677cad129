"""The tasks that make margins: map tasks send rows near borders, reduce tasks write the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.border_rows import BorderRows, border_rows
from hipslake.catalog.leaf_form import given_schema
from hipslake.catalog.leaf_rows import leaf_batches
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.placement import icrs_of
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.engine.model import Block, Counter, Routed
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import MarginPairs, border_of, margin_pairs, rows_within
from hipslake.sphere.pixels import HEALPIX_COLUMN, WHOLE_SKY
from hipslake.steps.ingest.write_tasks import LeafWriter
from hipslake.steps.margin.state import MarginOrder, MarginWork, load_work
from hipslake.steps.row_routing import to_targets
from hipslake.storage.folder import Storage

ADDED, REMOVED = "added", "removed"
RESULT_SCHEMA = pa.schema([("margin", pa.string()), ("change", pa.string()), *PARTITION_SCHEMA])
_TILE = "_tile"  # of a row on its way: the place of the tile that it is for
_SENT_BYTES = 4 << 20  # rows are few: gathered up to here, a block is worth its envelope


@dataclass(frozen=True)
class MarginTask:
    """Both halves of the exchange that makes margins; small, so that it travels with every task.

    Attributes
    ----------
    catalog : Storage
        At the catalog's root.
    write_id : str
        The write that the margins are made in.
    attempt : str
        Of one job only.
    read : Counter
        Rows of the leaves that are looked through so far.
    """

    catalog: Storage
    write_id: str
    attempt: str
    read: Counter

    @property
    def work(self) -> MarginWork:
        """The leaves, the tiles and what stands there."""
        return load_work(self.catalog, self.write_id, self.attempt)

    @property
    def sources(self) -> int:
        """Number of map tasks: those that read leaves, and one that announces what must be looked at."""
        return self.work.tasks + 1

    def route(self, number: int) -> Iterator[Routed]:
        """Send each reduce task the rows of its margins; the last map task sends it none, but wakes it."""
        work = self.work
        if number == work.tasks:
            schema = given_schema(work.schema)
            nothing = _sent(pa.RecordBatch.from_pylist([], schema), np.empty(0, np.int64))
            for target, must in zip(work.target, work.must, strict=True):
                yield from ((each, nothing) for each in np.unique(target[must]).tolist())
            return
        gathered = _Gathered()
        for leaf in np.flatnonzero(work.task == number).tolist():
            for rows in _near_border(work, leaf):
                for margin in range(len(work.order.radii)):
                    _send(work, margin, rows, gathered)
                if gathered.bytes > _SENT_BYTES:
                    yield from gathered.blocks()
            self.read.add(sum(work.leaves.files(leaf)["rows"].to_pylist()))
        yield from gathered.blocks()

    def write(self, target: int, blocks: list[Block]) -> Iterator[pa.RecordBatch]:
        """Write the margin files of a reduce task; say which came, and which went."""
        work = self.work
        margin = work.margin_of(target)
        sent = pa.Table.from_batches([block.rows for block in blocks]).combine_chunks()
        blocks.clear()
        tile = sent[_TILE].to_numpy()
        along = _order(sent, tile)
        tile, sent = tile[along], sent.drop_columns([_TILE])
        must = np.flatnonzero((work.target[margin] == target) & work.must[margin])
        removed: list[dict[str, object]] = []
        order = work.order
        with LeafWriter(
            work.catalog,
            self.write_id,
            order.spec,
            order.names[margin],
            given_schema(work.schema),
            splits=False,
        ) as writer:
            for place in np.union1d(tile, must).tolist():
                first, last = np.searchsorted(tile, [place, place + 1])
                came = sent.take(pa.array(along[first:last]))
                rows = came if work.before is None else _merged(work, margin, place, came, removed)
                if rows is not None:
                    writer.write(work.tiles[place], rows.combine_chunks().to_batches())
        name = order.names[margin]
        files = [{**file, "margin": name, "change": ADDED} for file in writer.files]
        yield pa.RecordBatch.from_pylist(files + removed, schema=RESULT_SCHEMA)


class _Gathered:
    """Rows on their way, per reduce task, in the order in which they were found."""

    def __init__(self) -> None:
        self.bytes = 0
        self._batches: dict[int, list[pa.RecordBatch]] = {}

    def add(self, target: int, rows: pa.RecordBatch) -> None:
        self._batches.setdefault(target, []).append(rows)
        self.bytes += rows.nbytes

    def blocks(self) -> Iterator[Routed]:
        """Hand all of them on."""
        for target, batches in sorted(self._batches.items()):
            yield target, pa.concat_batches(batches)
        self._batches, self.bytes = {}, 0


def _near_border(work: MarginWork, leaf: int) -> Iterator[BorderRows]:
    """The rows of a leaf that may be in a margin."""
    border = Intervals(*border_of(work.leaves.tree[leaf], max(work.order.radii)))
    for file in work.leaves.files(leaf).to_pylist():
        yield from border_rows(work.source, file["path"], file["bytes"], work.schema, work.position, border)


def _send(work: MarginWork, margin: int, rows: BorderRows, gathered: _Gathered) -> None:
    """Gather the rows that lie in the margin of a tile, for the reduce task of the tile."""
    pairs = margin_pairs(work.tiles, rows.h29, rows.ra, rows.dec, work.order.radii[margin])
    pairs = _news(work, rows, pairs)
    target = work.target[margin][pairs.tile]
    if not len(target):
        return
    assert target.min() >= 0, "a row came near a tile that was not foreseen"
    for number, part in to_targets(_sent(rows.take(pairs.row), pairs.tile), target):
        gathered.add(number, part)


def _news(work: MarginWork, rows: BorderRows, pairs: MarginPairs) -> MarginPairs:
    """The pairs that the margins before an append do not tell: those of rows that came with it.

    Also those of older rows in a tile that is divided now: its parts are each other's neighbours.
    """
    if work.before is None:
        return pairs
    assert rows.row is not None  # increments can be told from each other
    row = rows.row[pairs.row]
    comes = row >> ORDINAL_SHIFT == work.order.ordinal
    if work.order.returns is not None:
        comes |= work.order.returns.hold(rows.h29[pairs.row], row)
    of_row = work.before.find(rows.h29)[pairs.row]
    of_tile = work.before.find(work.tiles.start)[pairs.tile]
    chosen = comes | (of_row == of_tile)
    return MarginPairs(pairs.row[chosen], pairs.tile[chosen])


def _sent(rows: pa.RecordBatch, tile: NDArray[np.int64]) -> pa.RecordBatch:
    schema = rows.schema.append(pa.field(_TILE, pa.int64()))
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(tile, pa.int64())], schema=schema)


def _order(rows: pa.Table, *first: NDArray[np.int64]) -> NDArray[np.int64]:
    """What sorts rows by (`_healpix_29`, `_row`), before that by some keys, and else as they come."""
    keys = [rows[HEALPIX_COLUMN].to_numpy(), *first]
    if ROW_COLUMN in rows.schema.names:
        keys.insert(0, rows[ROW_COLUMN].to_numpy())
    return np.lexsort(keys)


def _merged(
    work: MarginWork, margin: int, place: int, came: pa.Table, removed: list[dict[str, object]]
) -> pa.Table | None:
    """The rows of a tile's margin after an append; None where it is what it was, or has none."""
    standing = work.standing[margin]
    start, stop = int(work.tiles.start[place]), int(work.tiles.stop[place])
    first = int(np.searchsorted(standing.tree.stop, start, side="right"))
    last = int(np.searchsorted(standing.tree.start, stop, side="left"))
    changed = came.num_rows > 0
    kept = [came]
    for at in range(first, last):
        batches = [
            batch
            for file in standing.files(at).to_pylist()
            for batch in leaf_batches(work.catalog, file["path"], file["bytes"], work.schema, WHOLE_SKY)
        ]
        rows = pa.Table.from_batches(batches, work.schema)
        stays = _staying(work.order, rows)
        same = standing.tree[at] == work.tiles[place]
        if same:
            changed |= not stays.all()
            if not changed:
                return None
            removed += [
                {**file, "margin": work.order.names[margin], "change": REMOVED}
                for file in standing.files(at).to_pylist()
            ]
        elif standing.tree.order[at] < work.tiles.order[place]:  # the tile is a part of one that was
            stays &= _within(work, margin, place, rows)
        else:
            h29 = rows[HEALPIX_COLUMN].to_numpy()
            stays &= (h29 < start) | (h29 >= stop)
        kept.append(rows.filter(pa.array(stays)))
    rows = pa.concat_tables(kept).combine_chunks()
    rows = rows.take(pa.array(_order(rows)))
    if last - first > 1:  # a row near two tiles that are one now is in it once
        number = rows[ROW_COLUMN].to_numpy()
        rows = rows.filter(pa.array(np.append(True, number[1:] != number[:-1])[: len(number)]))
    return rows


def _staying(order: MarginOrder, rows: pa.Table) -> NDArray[np.bool_]:
    """Which rows of a margin are in the leaves after the append, bool[n]."""
    row = rows[ROW_COLUMN].to_numpy()
    if order.goes is not None:
        return ~order.goes.hold(rows[HEALPIX_COLUMN].to_numpy(), row)
    return ~np.isin(row >> ORDINAL_SHIFT, list(order.replaces))


def _within(work: MarginWork, margin: int, place: int, rows: pa.Table) -> NDArray[np.bool_]:
    ra, dec = icrs_of(rows, work.position)
    return rows_within(work.tiles[place], ra, dec, work.order.radii[margin])
