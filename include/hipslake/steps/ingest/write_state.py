"""State of the tasks of the write step: loaded from the run folder once per worker process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.catalog.placement import Placer
from hipslake.catalog.schema import check_columns
from hipslake.catalog.standing import Standing
from hipslake.planning.splits import assign_targets
from hipslake.sources import Source, open_source
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import starts, stops
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.frozen_objects import load_object_pixels
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.ingest.superseded_rows import SupersededRows, load_superseded
from hipslake.steps.run import RunFolder
from hipslake.steps.run_storage import keeping_files
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class GroupPlan:
    """The leaves of one column group along the curve, and the reduce task of each.

    Attributes
    ----------
    order, npix, rows : int64[n]
    start, stop : int64[n]
        The order-29 pixels of each leaf, [start, stop).
    target : int32[n]
        Reduce task; tasks are numbered over all groups.
    bytes : int64[n]
        In memory, about, of the rows that are read for each leaf.
    """

    group: str
    schema: pa.Schema
    order: NDArray[np.int64]
    npix: NDArray[np.int64]
    rows: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    target: NDArray[np.int32]
    bytes: NDArray[np.int64]

    def leaves_of(self, target: int) -> range:
        """The places of a reduce task's leaves."""
        first, last = np.searchsorted(self.target, [target, target + 1])
        return range(int(first), int(last))

    def target_starts(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The reduce tasks, and the order-29 pixel at which the first leaf of each starts."""
        first = np.flatnonzero(np.diff(self.target, prepend=-1))
        return self.target[first], self.start[first]


def plans_of_groups(
    schemas: Mapping[str, pa.Schema],
    plan: pa.Table,
    row_bytes: Mapping[str, float],
    target_bytes: int,
    standing: Mapping[str, Standing] | None = None,
) -> tuple[GroupPlan, ...]:
    """Number the reduce tasks of all column groups.

    Parameters
    ----------
    schemas : mapping of str to pyarrow.Schema
        Per group, the schema of its leaf files.
    plan : pyarrow.Table
        The leaves of all groups along the curve: group, order, npix, rows.
    row_bytes : mapping of str to float
        Per group, the bytes in memory of a row.
    target_bytes : int
        Bytes in memory that one reduce task gathers, about.
    standing : mapping of str to Standing, optional
        Per group, published leaves whose rows a task reads too, where they overlap with its own.
    """
    plans, first_target = [], 0
    for group, schema in schemas.items():
        mine = plan.filter(pc.equal(plan["group"], group))
        order, npix, rows = (mine[name].to_numpy().astype(np.int64) for name in ("order", "npix", "rows"))
        start, stop = starts(order, npix), stops(order, npix)
        old_rows = 0 if standing is None else standing[group].rows_within(start, stop)
        sizes = ((rows + old_rows) * row_bytes.get(group, 64.0)).astype(np.int64)
        target = assign_targets(sizes, target_bytes) + np.int32(first_target)
        first_target = int(target[-1]) + 1 if len(target) else first_target
        plans.append(GroupPlan(group, schema, order, npix, rows, start, stop, target, sizes))
    return tuple(plans)


@dataclass(frozen=True)
class WriteState:
    """A run's frozen inputs, plan and places, as the tasks that write leaves need them.

    Attributes
    ----------
    run : FrozenRun
    write_id : str
        The folder that is written into.
    ordinal : int
        Of the increment that the rows are.
    source : Source
    schema : pyarrow.Schema
        What the source is read as.
    splits : SplitTable
    plans : tuple of GroupPlan
    placer : Placer
        Tells where each row lies.
    superseded : SupersededRows or None
        Rows that are left out, since newer ones take their place.
    """

    run: FrozenRun
    write_id: str
    ordinal: int
    source: Source
    schema: pa.Schema
    splits: SplitTable
    plans: tuple[GroupPlan, ...]
    placer: Placer
    superseded: SupersededRows | None

    @property
    def spec(self) -> CatalogSpec:
        return self.run.spec

    @property
    def catalog(self) -> Storage:
        """The storage at the catalog's root."""
        return Storage.at(self.run.catalog_uri)

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """Per column group, the schema of its leaf files."""
        return {plan.group: plan.schema for plan in self.plans}

    @property
    def targets(self) -> int:
        """Number of reduce tasks."""
        return sum(int(plan.target[-1]) - int(plan.target[0]) + 1 for plan in self.plans if len(plan.target))

    @property
    def heaviest(self) -> int:
        """Bytes in memory of the reduce task that has most, about; 0 if there is none."""
        weights = (np.bincount(plan.target, plan.bytes) for plan in self.plans if len(plan.target))
        return max((int(weight.max()) for weight in weights), default=0)

    def plan_of(self, target: int) -> GroupPlan:
        """The plan that a reduce task belongs to."""
        return next(plan for plan in self.plans if len(plan.target) and target <= int(plan.target[-1]))

    def stretch_of(self, target: int) -> tuple[str, int, int]:
        """The column group of a reduce task, and the stretch of the curve in which its leaves lie."""
        plan = self.plan_of(target)
        leaves = plan.leaves_of(target)
        return plan.group, int(plan.start[leaves[0]]), int(plan.stop[leaves[-1]])


@lru_cache(maxsize=2)
def load_write_state(
    run_uri: str, attempt: str, target_bytes: int, row_bytes: tuple[tuple[str, float], ...]
) -> WriteState:
    """Load the state of a run. The same arguments give the same numbering of reduce tasks, in every process.

    Parameters
    ----------
    run_uri : str
    attempt : str
        Of one write only: processes that outlive it keep its plan, and the next write may have another.
    target_bytes : int
        Bytes in memory that one reduce task gathers.
    row_bytes : tuple of (str, float)
        Bytes in memory of a row, per column group.
    """
    folder = RunFolder(run_uri)
    with keeping_files(run_uri, (RunFolder.RUN, RunFolder.SCHEMA, RunFolder.PLAN, RunFolder.SPLITS)):
        run = FrozenRun.of(folder)
        schema = folder.schema()
        plan = read_table(folder.storage, RunFolder.PLAN)
        splits = SplitTable.read(folder.storage, RunFolder.SPLITS)
    plans = plans_of_groups(check_columns(run.spec, schema), plan, dict(row_bytes), target_bytes)
    placer = Placer(run.spec, load_object_pixels(folder, run))
    superseded = load_superseded(folder, run.spec)
    return WriteState(
        run, run.write_id, 0, open_source(run.source), schema, splits, plans, placer, superseded
    )
