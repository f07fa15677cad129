"""State of the tasks that make margins: computed by the job, loaded once per process.

It lies in the folder of the write that the margins are made in, so that it does not matter who makes them:
a run that builds a version, one that appends to it, or somebody who wants a margin of a published one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from hipslake.catalog.describe import describe_margins
from hipslake.catalog.layouts import margin_work
from hipslake.catalog.metadata import Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.placement import stored_position
from hipslake.catalog.standing import Standing
from hipslake.engine.model import MAX_BLOCK_BYTES
from hipslake.planning.splits import assign_targets, bytes_per_task
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec, PositionSpec
from hipslake.specs.margin_spec import margin_name
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.steps.ingest.request import DEFAULT_TARGET_BYTES
from hipslake.steps.row_lists import RowList
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.folder import Storage

MEMORY_PER_BYTE = 3  # of a leaf file, about


class MarginOrder(Frozen):
    """Which margins are to be made, of which rows, and in tasks of which size."""

    write_id: str
    spec: CatalogSpec
    radii: tuple[float, ...]  # arcseconds
    ordinal: int | None = None  # of the increment whose rows have come; None: all rows have
    replaces: tuple[int, ...] = ()  # ordinals whose rows went
    goes: RowList | None = None  # in place of `replaces`, the rows that went
    returns: RowList | None = None  # rows of other increments that have come, too
    task_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # that a task reads or gathers, about
    block_bytes: int = MAX_BLOCK_BYTES  # a block of the exchange
    leaves_uri: str | None = (
        None  # root of the catalog that has the leaves; None: the margins lie beside them
    )
    leaves_mounts: tuple[tuple[str, str], ...] = ()  # what is mounted there

    @property
    def group(self) -> str:
        """The column group that margins are made of."""
        return self.spec.column_groups[0].name

    @property
    def names(self) -> tuple[str, ...]:
        """What the margins are called."""
        return tuple(margin_name(self.spec.layout, self.group, arcsec) for arcsec in self.radii)

    def described(self, files: pa.Table, catalog: Storage) -> tuple[Margin, ...]:
        """Describe the margins by their files, which have a column `margin`; sidecars are written."""
        named = dict(zip(self.names, self.radii, strict=True))
        return describe_margins(named, self.group, files, storage=catalog, write_id=self.write_id)


@dataclass(frozen=True)
class Wanted:
    """The tiles whose margin may change, for one distance.

    Attributes
    ----------
    tile : int64[n]
        Places in the tiles, ascending.
    size : int64[n]
        Bytes in memory of what is gathered for each, about.
    must : bool[n]
        Whether the margin may change though no row comes.
    """

    tile: NDArray[np.int64]
    size: NDArray[np.int64]
    must: NDArray[np.bool_]


@dataclass(frozen=True)
class MarginWork:
    """All that the tasks know.

    Attributes
    ----------
    catalog : Storage
        At the catalog's root.
    order : MarginOrder
    schema : pyarrow.Schema
        Of the column group.
    leaves : Standing
        The leaf files to read.
    task : int32[leaves]
        Map task of each leaf, ascending.
    tiles : PixelTree
        Those that the rows of these leaves can reach, and all that are wanted.
    before : PixelTree or None
        The tiles before an append, where they overlap with these; None: no margin stands yet.
    standing : tuple of Standing
        Per distance, the margin files that stand in these.
    target, must : tuple of arrays
        Per distance and tile: the reduce task (int32, -1 where it is not wanted), and `Wanted.must`.
    changed : Intervals or None
        Of rows without numbers: all that lie here are those of these leaves, all others are as they were.
    """

    catalog: Storage
    order: MarginOrder
    schema: pa.Schema
    leaves: Standing
    task: NDArray[np.int32]
    tiles: PixelTree
    before: PixelTree | None
    standing: tuple[Standing, ...]
    target: tuple[NDArray[np.int32], ...]
    must: tuple[NDArray[np.bool_], ...]
    changed: Intervals | None = None

    @cached_property
    def source(self) -> Storage:
        """Where the leaf files lie, at the root of their catalog."""
        return (
            self.catalog
            if self.order.leaves_uri is None
            else Storage.at(self.order.leaves_uri).mounting(self.order.leaves_mounts)
        )

    @cached_property
    def position(self) -> PositionSpec:
        """The columns that distances are measured by."""
        return stored_position(self.order.spec, self.schema)

    @property
    def tasks(self) -> int:
        """Number of map tasks."""
        return int(self.task[-1]) + 1 if len(self.task) else 0

    @property
    def targets(self) -> int:
        """Number of reduce tasks."""
        return max((int(target.max(initial=-1)) for target in self.target), default=-1) + 1

    def margin_of(self, target: int) -> int:
        """The place of the distance that a reduce task belongs to."""
        return next(at for at, each in enumerate(self.target) if target <= int(each.max(initial=-1)))


def store_work(
    catalog: Storage,
    order: MarginOrder,
    schema: pa.Schema,
    *,
    leaves: pa.Table,
    tiles: PixelTree,
    wanted: list[Wanted],
    before: PixelTree | None,
    standing: list[pa.Table],
    cores: int,
    changed: Intervals | None = None,
) -> None:
    """Store in the folder of the write what `load_work` loads.

    Parameters
    ----------
    catalog, order, schema, tiles, before, changed
        As the attributes of `MarginWork`.
    leaves : pyarrow.Table
        `PARTITION_SCHEMA`.
    wanted : list of Wanted
        Per distance.
    standing : list of pyarrow.Table
        `PARTITION_SCHEMA`, per distance.
    cores : int
        Of the engine: where there is little, every core has some.
    """
    folder = catalog.sub(margin_work(order.write_id))
    there = Standing.of(leaves)
    sizes = np.add.reduceat(np.append(there.table["bytes"].to_numpy(), 0), there.first[:-1])
    task = assign_targets(sizes, bytes_per_task(sizes.sum(), order.task_bytes, cores))
    folder.write("schema.arrow", schema.serialize().to_pybytes())
    write_table(folder, "leaves.parquet", there.table)
    write_table(folder, "tasks.parquet", pa.table({"task": task}))
    write_table(folder, "tiles.parquet", _pixels(tiles))
    if before is not None:
        write_table(folder, "before.parquet", _pixels(before))
    if changed is not None:
        write_table(folder, "changed.parquet", pa.table({"start": changed.start, "stop": changed.stop}))
    parts, first = [], 0
    for margin, each in enumerate(wanted):
        most = bytes_per_task(each.size.sum(), order.task_bytes, cores)
        target = assign_targets(each.size, most) + np.int32(first)
        first = int(target[-1]) + 1 if len(target) else first
        columns = {"tile": each.tile, "must": each.must, "target": target}
        parts.append(pa.table({"margin": np.full(len(target), margin), **columns}))
    write_table(folder, "wanted.parquet", pa.concat_tables(parts))
    numbered = [
        table.append_column("margin", pa.array(np.full(len(table), margin)))
        for margin, table in enumerate(standing)
    ]
    if numbered:
        write_table(folder, "standing.parquet", pa.concat_tables(numbered))
    folder.write("order.json", order.model_dump_json().encode())


@lru_cache(maxsize=2)
def load_work(catalog: Storage, write_id: str, attempt: str) -> MarginWork:
    """Load what a job has left in its write; another attempt at the write may leave something else."""
    folder = catalog.sub(margin_work(write_id))
    order = MarginOrder.model_validate_json(folder.read("order.json"))
    tiles = _tree(read_table(folder, "tiles.parquet"))
    wanted = read_table(folder, "wanted.parquet")
    target = tuple(np.full(len(tiles), -1, np.int32) for _ in order.radii)
    must = tuple(np.zeros(len(tiles), bool) for _ in order.radii)
    for margin in range(len(order.radii)):
        mine = wanted.filter(pc.equal(wanted["margin"], margin))
        target[margin][mine["tile"].to_numpy()] = mine["target"].to_numpy()
        must[margin][mine["tile"].to_numpy()] = mine["must"].to_numpy()
    appends = folder.is_file("before.parquet")
    standing = read_table(folder, "standing.parquet") if appends else None
    return MarginWork(
        catalog,
        order,
        pa.ipc.read_schema(pa.BufferReader(folder.read("schema.arrow"))),
        Standing.of(read_table(folder, "leaves.parquet")),
        read_table(folder, "tasks.parquet")["task"].to_numpy(),
        tiles,
        _tree(read_table(folder, "before.parquet")) if appends else None,
        tuple(
            Standing.of(
                standing.filter(pc.equal(standing["margin"], margin)).select(PARTITION_SCHEMA.names)
                if standing is not None
                else PARTITION_SCHEMA.empty_table()
            )
            for margin in range(len(order.radii))
        ),
        target,
        must,
        _intervals(read_table(folder, "changed.parquet")) if folder.is_file("changed.parquet") else None,
    )


def _intervals(table: pa.Table) -> Intervals:
    return Intervals(table["start"].to_numpy(), table["stop"].to_numpy())


def _pixels(tree: PixelTree) -> pa.Table:
    return pa.table({"order": tree.order, "npix": tree.npix})


def _tree(table: pa.Table) -> PixelTree:
    return PixelTree(table["order"].to_numpy(), table["npix"].to_numpy())
