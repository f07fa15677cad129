"""Where rows go when a table is clustered: ranges, and where files end on the curve, by samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hipslake.clustering.file_placement import Placement, drawn, row_numbers, sample_size
from hipslake.clustering.planning import RewriteGroup
from hipslake.clustering.range_ids import RangeBounds
from hipslake.engine.model import Counter, Engine
from hipslake.planning.splits import assign_targets
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.steps.compact_table.rewrite_plan import CURVES, Plan
from hipslake.steps.row_routing import runs_of
from hipslake.steps.tables import from_ipc, to_ipc
from hipslake.tables.compaction_protocol import CompactedTable, FileAccess, Share

_RESULT = pa.schema([("part", pa.int64()), ("rows", pa.binary())])


@dataclass(frozen=True)
class Placements:
    """Where rows go.

    Attributes
    ----------
    groups : tuple of Placement
        Per group.
    ranges : RangeBounds
        Of all groups together, in which files are compared.
    """

    groups: tuple[Placement, ...]
    ranges: RangeBounds


def sample_placements(spec: CompactionSpec, engine: Engine, table: CompactedTable, plan: Plan) -> Placements:
    """Sample the clustering columns of all groups, and place their rows."""
    sampled = _sampled(spec, engine, table, plan)
    groups = tuple(
        Placement.plan(
            RangeBounds.of_sample(rows, spec.columns, spec.num_ranges),
            CURVES[spec.mode],
            group.num_files,
            add_noise=spec.add_noise,
            seed=spec.seed,
        )
        for rows, group in zip(sampled, plan.groups, strict=True)
    )
    return Placements(groups, RangeBounds.of_sample(pa.concat_tables(sampled), spec.columns, spec.num_ranges))


def _sampled(spec: CompactionSpec, engine: Engine, table: CompactedTable, plan: Plan) -> list[pa.Table]:
    """Rows of each group."""
    parts = parts_of(plan.groups, engine.cores)
    shares = tuple(
        min(1.0, sample_size(spec.num_ranges, group.num_files) / max(group.rows, 1)) for group in plan.groups
    )
    task = SampleRowsTask(table.access, parts, shares, spec.columns, spec.seed, engine.counter())
    with engine.progress("sample", done=task.done):
        found = engine.run(task, tasks=len(parts), result=_RESULT)
    by_part = dict(zip(found["part"].to_pylist(), found["rows"].to_pylist(), strict=True))
    empty = pa.schema([table.schema.field(name) for name in spec.columns]).empty_table()
    tables: list[list[pa.Table]] = [[empty.replace_schema_metadata(None)] for _ in plan.groups]
    for part in (part for task in parts for part in task):
        if part.number in by_part:
            tables[part.group].append(from_ipc(by_part[part.number]))
    return [pa.concat_tables(parts, promote_options="permissive") for parts in tables]


@dataclass(frozen=True)
class SampleRowsTask:
    """Draws rows of files.

    Attributes
    ----------
    access : FileAccess
    parts : tuple of tuple of FilePart
        Those of each task.
    shares : tuple of float
        Per group, the share of rows that is drawn.
    columns : tuple of str
    seed : int
    done : Counter
    """

    access: FileAccess
    parts: Parts
    shares: tuple[float, ...]
    columns: tuple[str, ...]
    seed: int
    done: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Give the sample of each part, as an Arrow IPC stream."""
        sampled: dict[int, list[pa.RecordBatch]] = {}
        for part, first, batch in read_rows(self.access, self.parts[task], self.columns):
            numbers = row_numbers(part.number, first, batch.num_rows)
            chosen = pa.array(drawn(numbers, self.shares[part.group], self.seed))
            sampled.setdefault(part.number, []).append(batch.filter(chosen))
            self.done.add(batch.num_rows)
        samples = [to_ipc(pa.Table.from_batches(batches)) for batches in sampled.values()]
        yield pa.record_batch([list(sampled), samples], schema=_RESULT)


_SHARE_BYTES = 32 << 20
_TASK_BYTES = 64 << 20
_TASKS_PER_CORE = 5
_GATHERED_ROWS = 1 << 18
_GATHERED_BYTES = 64 << 20


class FilePart(NamedTuple):
    """A file, or a share of its row groups.

    Attributes
    ----------
    number : int
        Tells its rows from those of other parts, on every engine alike.
    group : int
    path : str
    share : Share
    """

    number: int
    group: int
    path: str
    share: Share


Parts = tuple[tuple[FilePart, ...], ...]
"""Those that each task reads."""


def parts_of(groups: Sequence[RewriteGroup], cores: int) -> Parts:
    """Divide the files of groups among tasks: some per core, so that all end together, but few."""
    parts: list[FilePart] = []
    sizes: list[float] = []
    for number, group in enumerate(groups):
        for file in group.files:
            shares = max(1, -(-file.bytes // _SHARE_BYTES))
            for share in range(shares):
                parts.append(FilePart(len(parts), number, file.path, Share(share, shares)))
                sizes.append(file.bytes / shares)
    task_bytes = min(_TASK_BYTES, max(1, int(sum(sizes)) // (_TASKS_PER_CORE * cores)))
    tasks = assign_targets(np.array(sizes, np.int64), task_bytes)
    return tuple(tuple(parts[first:last]) for first, last in runs_of(tasks))


class PartRows(NamedTuple):
    """Consecutive rows of a part; `first` counts those before."""

    part: FilePart
    first: int
    rows: pa.RecordBatch


def read_rows(access: FileAccess, parts: Sequence[FilePart], columns: Sequence[str]) -> Iterator[PartRows]:
    """The rows of the parts of a task, one after another."""
    for part in parts:
        first = 0
        for batch in access.read(part.path, columns, part.share):
            if batch.num_rows:
                yield PartRows(part, first, batch)
            first += batch.num_rows


def gathered(found: Iterator[PartRows]) -> Iterator[list[PartRows]]:
    """Put rows of one group together, up to a bounded size: small files are many, and blocks few."""
    held: list[PartRows] = []
    rows = size = 0
    for each in found:
        more = rows + each.rows.num_rows > _GATHERED_ROWS or size + each.rows.nbytes > _GATHERED_BYTES
        if held and (more or held[-1].part.group != each.part.group):
            yield held
            held, rows, size = [], 0, 0
        held.append(each)
        rows += each.rows.num_rows
        size += each.rows.nbytes
    if held:
        yield held
