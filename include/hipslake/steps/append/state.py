"""State of the tasks of an append: computed by the job, loaded from the run folder once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.catalog.placement import Placer
from hipslake.catalog.schema import check_columns
from hipslake.catalog.standing import Standing
from hipslake.planning.pixel_histogram import Histogram
from hipslake.planning.regions import Regions, plan_regions
from hipslake.sources import open_source
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec, Mode
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import starts, stops
from hipslake.steps.append.request import attempt_path
from hipslake.steps.append.settled_night import SettledNight
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.frozen_objects import load_object_pixels
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.ingest.superseded_rows import load_superseded
from hipslake.steps.ingest.write_state import WriteState, plans_of_groups
from hipslake.steps.run import RunFolder
from hipslake.steps.run_storage import run_storage
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import together


class Attempt(Frozen):
    """One attempt to merge the rows of a run into a version."""

    write_id: str  # names the folder of its files
    version: int | None  # the version that it builds on; None: there was none
    ordinal: int  # of the increment
    replaces: tuple[int, ...] = ()  # ordinals whose rows are taken out; mode upsert: rows tell that
    replaced_write: str | None = None  # that had added them
    numbers: int | None = None  # ordinal of the rows that stand there without `_row`, and get it now


@dataclass(frozen=True)
class AppendState(WriteState):
    """A run, the regions that it touches, and what stands there.

    Attributes
    ----------
    attempt : Attempt
    standing : dict of str to Standing
        Per column group.
    coverage : PixelTree
        The pixels that rows which are to be taken out lie in; all, where rows get their `_row`.
    settled : SettledNight or None
        Mode upsert: which rows go, come late, and return.
    """

    attempt: Attempt
    standing: dict[str, Standing]
    coverage: PixelTree
    settled: SettledNight | None

    @property
    def folder(self) -> Storage:
        """The storage at the run folder."""
        return run_storage(self.run.run_uri)

    def may_lose(self, start: int, stop: int) -> bool:
        """Whether a stretch of the curve may hold rows that are taken out, or change, or get their `_row`."""
        if self.settled is not None:
            lists = (self.settled.goes, self.settled.closes)
            return any(len(each.within(start, stop).row) for each in lists)
        return bool(
            np.searchsorted(self.coverage.stop, start, side="right")
            < np.searchsorted(self.coverage.start, stop, side="left")
        )


def regions_of_group(
    spec: CatalogSpec,
    leaves: PixelTree,
    cells: Histogram,
    weights: NDArray[np.int64],
    limit: int,
    coverage: PixelTree,
) -> Regions:
    """Plan the regions of a column group: where new rows come, and where rows are to be taken out.

    Parameters
    ----------
    spec : CatalogSpec
    leaves : PixelTree
        The leaves of the version that is added to.
    cells : Histogram
        The new rows.
    weights, limit
        As `hipslake.steps.ingest.plan.rows_and_limit` gives them.
    coverage : PixelTree
        The pixels that rows to be taken out lie in.
    """
    regions = plan_regions(
        cells, weights, limit, leaves, lowest_order=spec.lowest_order, highest_order=spec.highest_order
    )
    goes, comes = (Intervals(pixels.start, pixels.stop) for pixels in (coverage, regions))
    losing = goes.touch(leaves.start, leaves.stop) & ~comes.touch(leaves.start, leaves.stop)
    order = np.concatenate([regions.order, leaves.order[losing]])
    npix = np.concatenate([regions.npix, leaves.npix[losing]])
    rows = np.concatenate([regions.rows, np.zeros(int(losing.sum()), np.int64)])
    along = np.argsort(starts(order, npix))
    order, npix = order[along], npix[along]
    return Regions(order, npix, starts(order, npix), stops(order, npix), rows[along])


def store_attempt(
    folder: Storage,
    attempt: Attempt,
    schema: pa.Schema,
    regions: dict[str, Regions],
    standing: dict[str, pa.Table],
    coverage: PixelTree,
) -> None:
    """Store in the run folder what `load_append_state` loads."""
    columns = {"order": pa.int32(), "npix": pa.int64(), "rows": pa.int64()}
    planned = [
        pa.table({"group": [group] * len(found), **{name: getattr(found, name) for name in columns}})
        for group, found in regions.items()
    ]
    stand = [
        table.append_column("group", pa.array([group] * len(table), pa.string()))
        for group, table in standing.items()
    ]
    tables = {
        "regions.parquet": pa.concat_tables(planned),
        "standing.parquet": pa.concat_tables(stand),
        "taken_out.parquet": pa.table({"order": coverage.order, "npix": coverage.npix}),
    }
    files = {
        "schema.arrow": schema.serialize().to_pybytes(),
        "attempt.json": attempt.model_dump_json().encode(),
    }
    path = partial(attempt_path, attempt.write_id)
    together(
        folder,
        *(partial(write_table, folder, path(name), table) for name, table in tables.items()),
        *(partial(folder.write, path(name), data) for name, data in files.items()),
    )


@lru_cache(maxsize=2)
def load_append_state(
    run_uri: str, write_id: str, target_bytes: int, row_bytes: tuple[tuple[str, float], ...]
) -> AppendState:
    """Load the state of an attempt. The same arguments give the same reduce tasks, in every process.

    Parameters
    ----------
    run_uri, write_id : str
    target_bytes : int
        Bytes in memory that one reduce task gathers, old rows and new ones.
    row_bytes : tuple of (str, float)
        Bytes in memory of a row, per column group.
    """
    folder = RunFolder(run_uri)
    run, storage = FrozenRun.of(folder), folder.storage
    attempt = folder.read(attempt_path(write_id, "attempt.json"), Attempt)
    schema = pa.ipc.read_schema(pa.BufferReader(storage.read(attempt_path(write_id, "schema.arrow"))))
    regions = read_table(storage, attempt_path(write_id, "regions.parquet"))
    table = read_table(storage, attempt_path(write_id, "standing.parquet"))
    schemas = check_columns(run.spec, schema)
    standing = {
        group: Standing.of(table.filter(pc.equal(table["group"], group)).select(PARTITION_SCHEMA.names))
        for group in schemas
    }
    out = read_table(storage, attempt_path(write_id, "taken_out.parquet"))
    return AppendState(
        run,
        write_id,
        attempt.ordinal,
        open_source(run.source),
        schema,
        SplitTable.read(storage, RunFolder.SPLITS),
        plans_of_groups(schemas, regions, dict(row_bytes), target_bytes, standing),
        Placer(run.spec, load_object_pixels(folder, run)),
        load_superseded(folder, run.spec),
        attempt,
        standing,
        PixelTree(out["order"].to_numpy(), out["npix"].to_numpy()),
        SettledNight.load(folder, write_id) if run.spec.mode is Mode.UPSERT else None,
    )
