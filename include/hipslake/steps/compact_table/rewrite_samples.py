"""Where rows go when a table is clustered: ranges, and where files end on the curve, by samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hipslake.clustering.placement import NOISE_BITS, Placement, noise_of, row_numbers
from hipslake.clustering.planning import RewriteGroup
from hipslake.clustering.ranges import RangeBounds
from hipslake.compaction.model import CompactedTable, FileAccess
from hipslake.engine.model import Counter, Engine
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.steps.compact_table.rewrite_plan import CURVES, Plan
from hipslake.steps.compact_table.rewrite_reads import Parts, parts_of, read_rows

_ROWS_PER_RANGE = 40
_ROWS_PER_FILE = 100
_MOST_SAMPLED = 200_000
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
    shares = tuple(_share(spec, group) for group in plan.groups)
    task = SampleTask(table.access, parts, shares, spec.columns, spec.seed, engine.counter())
    with engine.progress("sample", done=task.done):
        found = engine.run(task, tasks=len(parts), result=_RESULT)
    by_part = dict(zip(found["part"].to_pylist(), found["rows"].to_pylist(), strict=True))
    empty = pa.schema([table.schema.field(name) for name in spec.columns]).empty_table()
    tables: list[list[pa.Table]] = [[empty.replace_schema_metadata(None)] for _ in plan.groups]
    for part in (part for task in parts for part in task):
        if part.number in by_part:
            tables[part.group].append(_from_ipc(by_part[part.number]))
    return [pa.concat_tables(parts, promote_options="permissive") for parts in tables]


def _share(spec: CompactionSpec, group: RewriteGroup) -> float:
    """The share of a group's rows that is drawn."""
    wanted = max(_ROWS_PER_RANGE * spec.num_ranges, _ROWS_PER_FILE * group.num_files)
    return min(1.0, min(wanted, _MOST_SAMPLED) / max(group.rows, 1))


@dataclass(frozen=True)
class SampleTask:
    """Draws rows of files.

    Attributes
    ----------
    access : FileAccess
    parts : tuple of tuple of Part
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
        drawn: dict[int, list[pa.RecordBatch]] = {}
        for part, first, batch in read_rows(self.access, self.parts[task], self.columns):
            least = int(self.shares[part.group] * 2**NOISE_BITS)
            numbers = row_numbers(part.number, first, batch.num_rows)
            chosen = pa.array(noise_of(numbers, ~self.seed) < least)
            drawn.setdefault(part.number, []).append(batch.filter(chosen))
            self.done.add(batch.num_rows)
        yield pa.record_batch([list(drawn), [_to_ipc(each) for each in drawn.values()]], schema=_RESULT)


def _from_ipc(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _to_ipc(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
