"""Margins made by tasks: rows near the borders of leaves are filed under the pixels that they are near to.

Leaves are read once, whatever the number of margins, and of each only the row groups that touch its border.

After an append, margins are merged with the rows that came, in the same job, before the same commit
(`MarginUpdate`). What an append adds to the margin of a tile are its own rows near to it; what it divides
has, in each part, the rows near to that part among those that were near to the whole or lay in it; what it
joins has those that were near to any part. So no leaf is read but those that the append has written.

Rows of a join have no numbers. There the places of leaves that came or went tell which rows are others.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.change import GroupChange, MarginChange, leaves_after
from hipslake.catalog.layouts import exchange_root, margin_work
from hipslake.catalog.metadata import GroupMetadata, Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA, summed_by_leaf
from hipslake.engine.model import Engine
from hipslake.engine.scratch import blocks_in_write
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import radians_of, tiles_near
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import Pixel
from hipslake.steps.ingest.draft import FILES_SCHEMA
from hipslake.steps.margin.state import MEMORY_PER_BYTE, MarginOrder, Wanted, store_work
from hipslake.steps.margin.tasks import ADDED, REMOVED, RESULT_SCHEMA, UNCLEAR, MarginTask
from hipslake.storage.folder import Storage

_TILE_BYTES = 64 << 10  # what is expected to come near a tile


_PIXEL_SIDE = np.sqrt(np.pi / 3.0)  # radians, of a base pixel if it were a square


def build_margins(
    engine: Engine, catalog: Storage, order: MarginOrder, schema: pa.Schema, leaves: pa.Table
) -> pa.Table:
    """Make margins of all leaves of a column group; give their files as `FILES_SCHEMA`.

    Parameters
    ----------
    engine : Engine
    catalog : Storage
        At the catalog's root.
    order : MarginOrder
    schema : pyarrow.Schema
        Of the column group.
    leaves : pyarrow.Table
        Its partitions, `PARTITION_SCHEMA`.
    """
    summed = summed_by_leaf(leaves)
    tree = PixelTree(summed["order"].to_numpy(), summed["npix"].to_numpy())
    tiles = tree.tiling()
    leaf_bytes = np.append(summed["bytes"].to_numpy(), 0)[tree.find(tiles.start)]
    wanted = [_all_of(tiles, leaf_bytes, arcsec) for arcsec in order.radii]
    store_work(
        catalog,
        order,
        schema,
        leaves=leaves,
        tiles=tiles,
        wanted=wanted,
        before=None,
        standing=[],
        cores=engine.cores,
    )
    files = run_tasks(engine, catalog, order, size=sum(int(each.size.sum()) for each in wanted))
    return files.select(FILES_SCHEMA.names).cast(FILES_SCHEMA)


def run_tasks(engine: Engine, catalog: Storage, order: MarginOrder, *, size: int) -> pa.Table:
    """Run the tasks on what `store_work` has left, and clear it away; gives `RESULT_SCHEMA`."""
    task = MarginTask(catalog, order.write_id, secrets.token_hex(4), engine.counter())
    work = task.work
    rows = pc.sum(work.leaves.table["rows"]).as_py() or 0
    with (
        engine.progress("margin", rows=rows, done=task.read),
        blocks_in_write(catalog, exchange_root(order.write_id), size) as scratch,
    ):
        files = engine.exchange(
            sources=task.sources,
            mapper=task.route,
            targets=work.targets,
            reducer=task.write,
            result=RESULT_SCHEMA,
            block_bytes=order.block_bytes,
            scratch=scratch,
        )
    catalog.delete_tree(margin_work(order.write_id))
    return files


def _all_of(tiles: PixelTree, leaf_bytes: NDArray[np.int64], arcsec: float) -> Wanted:
    """Every tile; what a leaf gets from its neighbours is taken to be what it gives them."""
    share = np.minimum(1.0, 4.0 * radians_of(arcsec) / (_PIXEL_SIDE * 2.0**-tiles.order))
    size = (MEMORY_PER_BYTE * leaf_bytes * share).astype(np.int64)
    return Wanted(np.arange(len(tiles)), size, np.zeros(len(tiles), bool))


class UnclearMarginError(Exception):
    """Why margins cannot be made of those that stand."""


@dataclass(frozen=True)
class MarginUpdate:
    """An append, as far as margins are concerned.

    Attributes
    ----------
    catalog : Storage
        At the catalog's root.
    order : MarginOrder
    schema : pyarrow.Schema
        Of the primary column group, with the append.
    group : GroupMetadata or None
        That group in the version that the append builds on.
    margins : tuple of Margin
        Those of that version, in the order of the distances; empty if there is no version.
    change : GroupChange
        What the append changes in the group.
    came, went : PixelTree
        Where rows lie that it brings in, and that it takes out.
    anew : bool
        Whether the append has written all leaves anew: margins come of these alone.
    """

    catalog: Storage
    order: MarginOrder
    schema: pa.Schema
    group: GroupMetadata | None
    margins: tuple[Margin, ...]
    change: GroupChange
    came: PixelTree
    went: PixelTree
    anew: bool = False
    changed: Intervals | None = None

    def run(self, engine: Engine) -> dict[float, MarginChange]:
        """Make the margin files that differ; gives the change per distance.

        Raises
        ------
        UnclearMarginError
            Of rows without numbers: in which order a margin has them cannot be told.
        """
        before = PixelTree(*self.group.leaf_pixels()) if self.group else PixelTree([], [])
        old, new = before.tiling(), leaves_after(self.group, self.change).tiling()
        fresh = old.places_of(new.order, new.npix) < 0
        gone = old.select(new.places_of(old.order, old.npix) < 0)
        wanted = [self._wanted(new, fresh, arcsec) for arcsec in self.order.radii]
        tiles = self._reached(new, wanted)
        around = _overlapping(old, new.select(tiles))
        standing = [margin.table_near(self.catalog, around.start, around.stop) for margin in self.margins]
        standing = standing or [PARTITION_SCHEMA.empty_table()] * len(wanted)
        store_work(
            self.catalog,
            self.order,
            self.schema,
            leaves=self.change.came,
            tiles=new.select(tiles),
            wanted=[
                Wanted(np.searchsorted(tiles, places), _sizes(new.select(places), table), must)
                for (places, must), table in zip(wanted, standing, strict=True)
            ],
            before=None if self.anew else around,
            standing=standing,
            cores=engine.cores,
            changed=self.changed,
        )
        size = MEMORY_PER_BYTE * (pc.sum(self.change.came["bytes"]).as_py() or 0)
        files = run_tasks(engine, self.catalog, self.order, size=size)
        if (unclear := files.filter(pc.equal(files["change"], UNCLEAR))).num_rows:
            margin, pixel = (
                unclear["margin"][0],
                Pixel(unclear["order"][0].as_py(), unclear["npix"][0].as_py()),
            )
            raise UnclearMarginError(f"margin {margin} of {pixel}: rows at one place cannot be told apart")
        return {
            arcsec: _change(files.filter(pc.equal(files["margin"], name)), table, old, new, fresh, gone)
            for arcsec, name, table in zip(self.order.radii, self.order.names, standing, strict=True)
        }

    def _wanted(
        self, new: PixelTree, fresh: NDArray[np.bool_], arcsec: float
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The tiles whose margin may change, and which of them may though no row comes."""
        comes, goes = (tiles_near(new, cells.order, cells.npix, arcsec) for cells in (self.came, self.went))
        must = fresh.copy()
        must[goes] = True
        places = np.union1d(np.flatnonzero(must), comes)
        return places, must[places]

    def _reached(
        self, new: PixelTree, wanted: list[tuple[NDArray[np.int64], NDArray[np.bool_]]]
    ) -> NDArray[np.int64]:
        """The tiles that the tasks have to know."""
        leaves = self.change.came
        order, npix = leaves["order"].to_numpy().astype(np.int64), leaves["npix"].to_numpy()
        near = tiles_near(new, order, npix, max(self.order.radii))
        return np.unique(np.concatenate([near, *(places for places, _ in wanted)]))


def _overlapping(tree: PixelTree, others: PixelTree) -> PixelTree:
    """The leaves of a tree that others overlap with."""
    first = np.searchsorted(tree.stop, others.start, side="right")
    last = np.searchsorted(tree.start, others.stop, side="left")
    marked = np.zeros(len(tree) + 1, np.int64)
    np.add.at(marked, first, 1)
    np.add.at(marked, last, -1)
    return tree.select(np.cumsum(marked[:-1]) > 0)


def _sizes(tiles: PixelTree, standing: pa.Table) -> NDArray[np.int64]:
    """Bytes in memory that are gathered for tiles, about."""
    size = np.full(len(tiles), _TILE_BYTES)
    at = tiles.places_of(standing["order"].to_numpy(), standing["npix"].to_numpy())
    size[at[at >= 0]] += MEMORY_PER_BYTE * standing["bytes"].to_numpy()[at >= 0]
    return size


def _change(
    files: pa.Table,
    standing: pa.Table,
    old: PixelTree,
    new: PixelTree,
    fresh: NDArray[np.bool_],
    gone: PixelTree,
) -> MarginChange:
    added, removed = (
        files.filter(pc.equal(files["change"], change)).select(PARTITION_SCHEMA.names).cast(PARTITION_SCHEMA)
        for change in (ADDED, REMOVED)
    )
    of_gone = gone.places_of(standing["order"].to_numpy(), standing["npix"].to_numpy()) >= 0
    order, npix = (files[name].to_numpy().astype(np.int64) for name in ("order", "npix"))
    touched = new.places_of(order, npix)
    made = new.select(np.union1d(touched, np.flatnonzero(fresh)))
    still = old.places_of(made.order, made.npix)
    stayed = old.select(still[still >= 0])
    return MarginChange(
        removed=pa.concat_tables([removed, standing.filter(pa.array(of_gone))]),
        added=added,
        used=PixelTree(np.concatenate([gone.order, stayed.order]), np.concatenate([gone.npix, stayed.npix])),
        made=made,
    )
