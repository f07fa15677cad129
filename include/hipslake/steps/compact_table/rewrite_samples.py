"""Where rows go when a table is rewritten: ranges, and where files end in an order, by samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from hipslake.clustering.column_values import columns_of
from hipslake.clustering.file_placement import Placement, drawn_places, noise_of, sample_size
from hipslake.clustering.planning import FileSizing, RewriteGroup
from hipslake.clustering.range_ids import RangeBounds
from hipslake.engine.model import Counter, Engine
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.steps.compact_table.file_parts import FilePart, Parts, parts_of, read_rows
from hipslake.steps.compact_table.moved_rows import count_moved
from hipslake.steps.compact_table.rewrite_plan import curve_of
from hipslake.steps.compact_table.row_placement import RowPlacement, SequentialPlacement, SortedPlacement
from hipslake.steps.tables import from_ipc, to_ipc
from hipslake.tables.compaction_protocol import CompactedTable, FileAccess, Rewrite, Share

_ONE_GROUP_IN = 4  # row groups that span the same values is read for a sample
_RESULT = pa.schema([("part", pa.int64()), ("rows", pa.binary())])


@dataclass(frozen=True)
class Placements:
    """Where rows go.

    Attributes
    ----------
    groups : tuple of RowPlacement
        Per group.
    partitions : tuple of tuple of str
        Per group, the partition of each of its files.
    ranges : RangeBounds or None
        Of all groups together, in which files are compared; None if no rows are clustered along a curve.
    """

    groups: tuple[RowPlacement, ...]
    partitions: tuple[tuple[str, ...], ...]
    ranges: RangeBounds | None


def place_rows(
    spec: CompactionSpec,
    engine: Engine,
    table: CompactedTable,
    groups: Sequence[RewriteGroup],
    sizing: FileSizing,
    rewrite: Rewrite,
) -> Placements:
    """Sample the clustering columns of groups, count the rows that move, and place all rows."""
    parts = parts_of(groups, engine.cores)
    placed: list[RowPlacement] = [_sequential(parts, number, group) for number, group in enumerate(groups)]
    partitions = [(group.partition,) * group.num_files for group in groups]
    ranges = None
    clustered = [] if table.by is None else [at for at, group in enumerate(groups) if not group.outdated]
    if clustered and (spec.is_curve or any(groups[at].num_files > 1 for at in clustered)):
        sorts = tuple(dict.fromkeys(each.field.column for each in table.sort_fields))
        columns = columns_of(table.schema, spec.columns) if spec.is_curve else sorts
        samples = _sampled(spec, engine, table, [groups[at] for at in clustered], columns)
        for at, sample in zip(clustered, samples, strict=True):
            placed[at] = _ordered(spec, table, sample, groups[at].num_files)
        if spec.is_curve:
            ranges = RangeBounds.of_sample(pa.concat_tables(samples), spec.columns, spec.num_ranges)
    moving = [at for at, group in enumerate(groups) if group.outdated]
    if moving:
        found = count_moved(engine, table, groups, parts, sizing, spec.seed)
        for at in moving:
            placed[at] = moved = found[at]
            names = rewrite.add_partitions(moved.values.records())
            partitions[at] = tuple(names[value] for value in moved.partitions)
    return Placements(tuple(placed), tuple(partitions), ranges)


def _ordered(spec: CompactionSpec, table: CompactedTable, sample: pa.Table, num_files: int) -> RowPlacement:
    if not spec.is_curve:
        return SortedPlacement.of_sample(sample, table.sort_fields, num_files, spec.seed)
    return Placement.plan(
        RangeBounds.of_sample(sample, spec.columns, spec.num_ranges),
        curve_of(spec),
        num_files,
        add_noise=spec.add_noise,
        seed=spec.seed,
    )


def _sequential(parts: Parts, number: int, group: RewriteGroup) -> SequentialPlacement:
    """The files of a group one after another, as they are read."""
    known = {file.path: file for file in group.files}
    mine = [part for task in parts for part in task if part.group == number]
    sizes = np.array([known[part.path].kept_bytes / part.share.total for part in mine], np.float64)
    rows = [known[part.path].bytes / max(known[part.path].rows, 1) for part in mine]
    return SequentialPlacement(
        np.array([part.number for part in mine], np.int64),
        np.cumsum(sizes) - sizes,
        np.array(rows, np.float64),
        float(sizes.sum()),
        group.num_files,
    )


def _sampled(
    spec: CompactionSpec,
    engine: Engine,
    table: CompactedTable,
    groups: Sequence[RewriteGroup],
    columns: tuple[str, ...],
) -> list[pa.Table]:
    """Rows of each group."""
    parts = parts_of(groups, engine.cores)
    shares = tuple(
        min(1.0, sample_size(spec.num_ranges, group.num_files) / max(group.rows, 1)) for group in groups
    )
    task = SampleRowsTask(table.access, parts, shares, columns, spec.seed, engine.counter())
    with engine.progress("sample", done=task.done):
        found = engine.run(task, tasks=len(parts), result=_RESULT)
    by_part = dict(zip(found["part"].to_pylist(), found["rows"].to_pylist(), strict=True))
    empty = pa.schema([table.schema.field(name) for name in columns]).empty_table()
    tables: list[list[pa.Table]] = [[empty.replace_schema_metadata(None)] for _ in groups]
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
        alike = cache(lambda path: self.access.alike(path, self.columns))  # a file may have several parts
        for part in self.parts[task]:
            stretches, stands_for = self._looked_at(part, alike)
            share = min(1.0, self.shares[part.group] * stands_for)
            for before, stretch in stretches:
                for _, first, batch in read_rows(self.access, [stretch], self.columns):
                    chosen = drawn_places(part.number, before + first, batch.num_rows, share, self.seed)
                    sampled.setdefault(part.number, []).append(batch.take(pa.array(chosen)))
                    self.done.add(batch.num_rows)
        samples = [to_ipc(pa.Table.from_batches(batches)) for batches in sampled.values()]
        yield pa.record_batch([list(sampled), samples], schema=_RESULT)

    def _looked_at(
        self, part: FilePart, alike: Callable[[str], tuple[int, ...]]
    ) -> tuple[list[tuple[int, FilePart]], float]:
        """What is read of a part, each with the rows before it; and how many rows a row of it stands for.

        Of a file whose row groups span the same values that is a quarter of these, else everything.
        """
        everything = [(0, part)], 1.0
        if self.shares[part.group] * _ONE_GROUP_IN > 1:
            return everything
        rows = alike(part.path)
        if len(rows) < _ONE_GROUP_IN:
            return everything
        first_part = np.array([part.number - part.share.number])
        drawn = range(int(noise_of(first_part, self.seed)[0]) % _ONE_GROUP_IN, len(rows), _ONE_GROUP_IN)
        if not (looked_at := sum(rows[group] for group in drawn)):
            return everything
        found = [
            (sum(rows[:group]), part._replace(share=Share(group, len(rows))))
            for group in part.share.of(len(rows))
            if group in drawn
        ]
        return found, sum(rows) / looked_at
