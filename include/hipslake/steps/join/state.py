"""State of the tasks of a join: computed by the job, loaded from the run folder once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.joining.stretches import StretchPlan
from hipslake.catalog.partitions import total_of
from hipslake.catalog.schema import check_columns
from hipslake.planning.splits import bytes_per_task
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import Pixel
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
from hipslake.steps.ingest.write_state import GroupPlan, plans_of_groups
from hipslake.steps.join.frozen_join import frozen_join
from hipslake.steps.join.match_pieces import MatchedRows, Pieces
from hipslake.steps.join.request import COUNTS
from hipslake.steps.join.standing_outcome import OutcomeRows, StandingOutcome, load_standing
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.folder import Storage

_STRETCHES = "join/stretches.parquet"
_MATCHED_STRETCHES = "join/matched.parquet"
_LEAVES = "join/leaves.parquet"


@dataclass(frozen=True)
class JoinState:
    """What the tasks that join know.

    Attributes
    ----------
    join : CatalogJoin
    spec : CatalogSpec
        Of the outcome.
    catalog : Storage
        At the root of the outcome.
    stretches : StretchPlan
        One for each task.
    """

    join: CatalogJoin
    spec: CatalogSpec
    catalog: Storage
    stretches: StretchPlan


@dataclass(frozen=True)
class OutcomeState:
    """What the tasks that write know.

    Attributes
    ----------
    catalog : Storage
        At the root of the outcome.
    write_id : str
    spec : CatalogSpec
    pieces : Pieces
    stretches : pyarrow.Table
        Those with rows: task, start, stop.
    plan : GroupPlan
        The leaves of the only column group that are written.
    standing : StandingOutcome or None
        What is taken over of the last version; None: nothing.
    """

    catalog: Storage
    write_id: str
    spec: CatalogSpec
    pieces: Pieces
    stretches: pa.Table
    plan: GroupPlan
    standing: StandingOutcome | None = None

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(self.plan.target[-1]) + 1 if len(self.plan.target) else 0

    def rows(self) -> OutcomeRows:
        """The rows of the outcome; each task has its own, since it holds what it has opened."""
        return OutcomeRows(_rows_of(self.pieces, self.stretches), self.standing, self.plan.schema)

    def file_before(self, pixel: Pixel) -> dict[str, object] | None:
        """The leaf file of a pixel in the last version; None if it is no leaf there, or nothing stays."""
        return None if self.standing is None else self.standing.file_of(pixel)


def only_group(spec: CatalogSpec) -> str:
    """The name of the only column group of an outcome."""
    (group,) = spec.column_groups
    return group.name


def counts_path(attempt: str, task: int) -> str:
    """Where a task leaves the histogram of its rows, in the run folder.

    Parameters
    ----------
    attempt : str
        The folder of what the tasks have matched.
    task : int
    """
    return f"{COUNTS}/{attempt.rpartition('/')[2]}/{task}.arrow"


def store_stretches(folder: RunFolder, stretches: StretchPlan) -> None:
    """Leave for the tasks which stretch each of them joins."""
    columns = {name: getattr(stretches, name) for name in ("start", "stop", "rows")}
    write_table(folder.storage, _STRETCHES, pa.table(columns))


def store_matched(folder: RunFolder, pieces: Pieces, found: pa.Table) -> MatchedRows:
    """Leave for the tasks that write which stretches have rows, and return these rows.

    Parameters
    ----------
    folder : RunFolder
    pieces : Pieces
        What the tasks have left.
    found : pyarrow.Table
        What they have said: task, rows.
    """
    filled = found.filter(pc.greater(found["rows"], 0)).sort_by("task")
    begun = read_table(folder.storage, _STRETCHES).take(filled["task"])
    table = pa.table({"task": filled["task"], "start": begun["start"], "stop": begun["stop"]})
    write_table(folder.storage, _MATCHED_STRETCHES, table)
    return _rows_of(pieces, table)


def store_leaves(folder: RunFolder, plan: pa.Table) -> None:
    """Leave for the tasks which planned leaves they write."""
    write_table(folder.storage, _LEAVES, plan)


@lru_cache(maxsize=2)
def load_join(run_uri: str, attempt: str) -> JoinState:
    """Load what the tasks of one attempt join; another attempt may have other stretches."""
    folder = RunFolder(run_uri)
    run = FrozenRun.of(folder)
    table = read_table(folder.storage, _STRETCHES)
    stretches = StretchPlan(*(table[name].to_numpy() for name in ("start", "stop", "rows")))
    return JoinState(frozen_join(folder).open(folder), run.spec, Storage.at(run.catalog_uri), stretches)


@lru_cache(maxsize=2)
def load_outcome(run_uri: str, attempt: str, target_bytes: int, cores: int) -> OutcomeState:
    """Load what the tasks of one attempt write.

    Parameters
    ----------
    run_uri, attempt : str
    target_bytes : int
        Most bytes in memory of the rows of a task, about.
    cores : int
        Of the engine: with few rows, tasks are smaller, so that every core has some.
    """
    folder = RunFolder(run_uri)
    run, spec = FrozenRun.of(folder), FrozenRun.of(folder).spec
    catalog, group = Storage.at(run.catalog_uri), only_group(spec)
    counted = folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
    row_bytes, leaves = counted.row_bytes[group].memory, read_table(folder.storage, _LEAVES)
    (plan,) = plans_of_groups(
        check_columns(spec, folder.schema()),
        leaves,
        {group: row_bytes},
        bytes_per_task(row_bytes * total_of(leaves, "rows"), target_bytes, cores),
    )
    stretches = read_table(folder.storage, _MATCHED_STRETCHES)
    standing = load_standing(folder, catalog, frozen_join(folder).base.version)
    return OutcomeState(catalog, run.write_id, spec, Pieces(catalog, attempt), stretches, plan, standing)


def _rows_of(pieces: Pieces, stretches: pa.Table) -> MatchedRows:
    return MatchedRows(pieces, *(stretches[name].to_numpy() for name in ("task", "start", "stop")))
