"""The tasks that make margins: map tasks send rows near borders, reduce tasks write the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

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
from hipslake.sphere.pixels import HEALPIX_COLUMN, WHOLE_SKY, Pixel
from hipslake.steps.ingest.write_tasks import LeafWriter
from hipslake.steps.margin.state import MarginWork, load_work
from hipslake.steps.row_routing import to_targets
from hipslake.storage.folder import Storage

ADDED, REMOVED = "added", "removed"
UNCLEAR = "unclear"  # which rows the margin of a pixel has cannot be told from what it was, and what came
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
        told: list[dict[str, object]] = []
        order = work.order
        with LeafWriter(
            work.catalog,
            self.write_id,
            order.spec,
            order.names[margin],
            given_schema(work.schema),
            splits=False,
            known=partial(_file_before, work, margin),
        ) as writer:
            for place in np.union1d(tile, must).tolist():
                first, last = np.searchsorted(tile, [place, place + 1])
                came = sent.take(pa.array(along[first:last]))
                rows = came if work.before is None else _merged(work, margin, place, came, told)
                if rows is not None:
                    writer.write(work.tiles[place], rows.combine_chunks().to_batches())
        name = order.names[margin]
        files = [{**file, "margin": name, "change": ADDED} for file in writer.files]
        yield pa.RecordBatch.from_pylist(files + told, schema=RESULT_SCHEMA)


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
    if work.before is None or work.changed is not None:
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


def _file_before(work: MarginWork, margin: int, pixel: Pixel) -> dict[str, object] | None:
    """The margin file of a pixel, where one stands that may come out the same."""
    standing = work.standing[margin]
    (at,) = standing.tree.places_of([pixel.order], [pixel.npix]).tolist()
    return None if at < 0 or work.changed is None else standing.files(at).to_pylist()[0]


def _merged(
    work: MarginWork, margin: int, place: int, came: pa.Table, told: list[dict[str, object]]
) -> pa.Table | None:
    """The rows of a tile's margin after a change; None where it is what it was, or has none."""
    standing = work.standing[margin]
    start, stop = int(work.tiles.start[place]), int(work.tiles.stop[place])
    first = int(np.searchsorted(standing.tree.stop, start, side="right"))
    last = int(np.searchsorted(standing.tree.start, stop, side="left"))
    changed = came.num_rows > 0
    stood = []
    for at in range(first, last):
        batches = [
            batch
            for file in standing.files(at).to_pylist()
            for batch in leaf_batches(work.catalog, file["path"], file["bytes"], work.schema, WHOLE_SKY)
        ]
        rows = pa.Table.from_batches(batches, work.schema)
        stays = _staying(work, rows)
        same = standing.tree[at] == work.tiles[place]
        if same:
            changed |= not stays.all()
            if not changed:
                return None
            told += [
                {**file, "margin": work.order.names[margin], "change": REMOVED}
                for file in standing.files(at).to_pylist()
            ]
        elif standing.tree.order[at] < work.tiles.order[place]:  # the tile is a part of one that was
            stays &= _within(work, margin, place, rows)
        else:
            h29 = rows[HEALPIX_COLUMN].to_numpy()
            stays &= (h29 < start) | (h29 >= stop)
        stood.append(rows.filter(pa.array(stays)))
    if work.changed is not None and len(stood) > 1:
        together = _each_once(work, stood)
        if together is None:
            pixel = work.tiles[place]._asdict()
            told.append({**pixel, "margin": work.order.names[margin], "change": UNCLEAR})
            return None
        stood = [together]
    rows = pa.concat_tables([came, *stood]).combine_chunks()
    rows = rows.take(pa.array(_order(rows)))
    if len(stood) > 1:  # a row near two tiles that are one now is in it once
        number = rows[ROW_COLUMN].to_numpy()
        rows = rows.filter(pa.array(np.append(True, number[1:] != number[:-1])[: len(number)]))
    return rows


def _each_once(work: MarginWork, several: list[pa.Table]) -> pa.Table | None:
    """Rows without numbers that were near some tiles which are one now, each once; None if it is not clear.

    Rows at one place are near the same tiles. So if two margins have rows with one `_healpix_29`, and these
    lie at the same places one after the other, they are the same rows. Else their order is not known.
    """
    together, *others = several
    where = [HEALPIX_COLUMN, work.position.ra, work.position.dec]
    for rows in others:
        here, there = (table[HEALPIX_COLUMN].to_numpy() for table in (together, rows))
        mine, theirs = np.isin(here, there), np.isin(there, here)
        common = [
            table.select(where).filter(pa.array(both)) for table, both in ((together, mine), (rows, theirs))
        ]
        if not common[0].equals(common[1]):
            return None
        together = pa.concat_tables([together, rows.filter(pa.array(~theirs))]).combine_chunks()
        together = together.take(pa.array(_order(together)))
    return together


def _staying(work: MarginWork, rows: pa.Table) -> NDArray[np.bool_]:
    """Which rows of a margin are in the leaves after the change, bool[n]."""
    h29 = rows[HEALPIX_COLUMN].to_numpy()
    if work.changed is not None:
        return ~work.changed.hold(h29)
    row = rows[ROW_COLUMN].to_numpy()
    if work.order.goes is not None:
        return ~work.order.goes.hold(h29, row)
    return ~np.isin(row >> ORDINAL_SHIFT, list(work.order.replaces))


def _within(work: MarginWork, margin: int, place: int, rows: pa.Table) -> NDArray[np.bool_]:
    ra, dec = icrs_of(rows, work.position)
    return rows_within(work.tiles[place], ra, dec, work.order.radii[margin])
