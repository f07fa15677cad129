"""Margins made by tasks: rows near the borders of leaves are filed under the pixels that they are near to.

Leaves are read once, whatever the number of margins, and of each only the row groups that touch its border.
"""

from __future__ import annotations

import secrets

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.layouts import margin_work
from hipslake.catalog.partitions import summed_by_leaf
from hipslake.engine.model import Engine
from hipslake.engine.scratch import blocks_in_write
from hipslake.sphere.margin_geometry import radians_of
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.steps.margin.request import FILES_SCHEMA
from hipslake.steps.margin.state import MEMORY_PER_BYTE, MarginOrder, Wanted, store_work
from hipslake.steps.margin.tasks import RESULT_SCHEMA, MarginTask
from hipslake.storage.folder import Storage

_PIXEL_SIDE = np.sqrt(np.pi / 3.0)  # radians, of a base pixel if it were a square


def build_margins(
    engine: Engine,
    catalog: Storage,
    order: MarginOrder,
    schema: pa.Schema,
    leaves: pa.Table,
    *,
    task_bytes: int,
    block_bytes: int,
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
    task_bytes, block_bytes : int
        As for `MarginRequest`.
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
        task_bytes=task_bytes,
    )
    size = sum(int(each.size.sum()) for each in wanted)
    files = run_tasks(engine, catalog, order, size=size, block_bytes=block_bytes)
    return files.select(FILES_SCHEMA.names).cast(FILES_SCHEMA)


def run_tasks(
    engine: Engine, catalog: Storage, order: MarginOrder, *, size: int, block_bytes: int
) -> pa.Table:
    """Run the tasks on what `store_work` has left, and clear it away; gives `RESULT_SCHEMA`."""
    task = MarginTask(catalog, order.write_id, secrets.token_hex(4), engine.counter())
    work = task.work
    rows = pc.sum(work.leaves.table["rows"]).as_py() or 0
    with (
        engine.progress("margin", rows=rows, done=task.read),
        blocks_in_write(catalog, order.write_id, size) as scratch,
    ):
        files = engine.exchange(
            sources=task.sources,
            mapper=task.route,
            targets=work.targets,
            reducer=task.write,
            result=RESULT_SCHEMA,
            block_bytes=block_bytes,
            scratch=scratch,
        )
    catalog.delete_tree(margin_work(order.write_id))
    return files


def _all_of(tiles: PixelTree, leaf_bytes: NDArray[np.int64], arcsec: float) -> Wanted:
    """Every tile; what a leaf gets from its neighbours is taken to be what it gives them."""
    share = np.minimum(1.0, 4.0 * radians_of(arcsec) / (_PIXEL_SIDE * 2.0**-tiles.order))
    size = (MEMORY_PER_BYTE * leaf_bytes * share).astype(np.int64)
    return Wanted(np.arange(len(tiles)), size, np.zeros(len(tiles), bool))
