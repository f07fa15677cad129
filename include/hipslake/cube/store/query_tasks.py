"""The tasks of a planned query: each reads and joins some partitions, as tables or as files.

No task holds more at a time than the partitions whose rows are sorted together, so an outcome may be larger
than the memory. Without groups a file holds the rows of some partitions, in their order, sorted within each;
its number is that of the task. With groups, each has a folder `<column>=<value>`, as Hive has them, with a
file of its rows; these columns are in the folder's name only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.cell_joins import Load, concatenated, read_partition
from hipslake.cube.dataset import labels_column
from hipslake.cube.query_plan import PartitionRead, QueryPlan
from hipslake.cube.store.cube_files import BYTES, PATH, read_files, read_rows
from hipslake.cube.store.layout import value_folders, value_text
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.errors import CubeError
from hipslake.exports.provenance import Provenance
from hipslake.exports.writers import write_export
from hipslake.predicates.conditions import Conjunction
from hipslake.specs.export_formats import ExportFormat
from hipslake.storage.folder import Storage

Shares = tuple[tuple[PartitionRead, ...], ...]
"""What each task reads, in the order of the plan; a group is never in two."""

TASKS_PER_CORE = 4


def shares_of_weight(
    plan: QueryPlan, reads: Sequence[PartitionRead], weights: Sequence[int], share: int
) -> Shares:
    """Cut reads into runs, each of which ends as it reaches some weight; groups stay whole.

    Parameters
    ----------
    plan : QueryPlan
    reads : sequence of PartitionRead
        Some of its reads, in their order.
    weights : sequence of int
        Of each read, in any unit.
    share : int
        Of a task, in the same unit.
    """
    found: list[list[PartitionRead]] = []
    filled, full, group = 0, True, -1
    grouped = bool(plan.intention.partition_by)
    for read, weight in zip(reads, weights, strict=True):
        if full and not (grouped and read.group == group):
            found.append([])
            filled = 0
        found[-1].append(read)
        filled += weight
        full, group = filled >= share, read.group
    return tuple(map(tuple, found))


def shares_for_cores(plan: QueryPlan, reads: Sequence[PartitionRead], cores: int) -> Shares:
    """Cut reads into some tasks for each core, of about equally many partitions."""
    share = max(1, -(-len(reads) // max(1, cores * TASKS_PER_CORE)))
    return shares_of_weight(plan, reads, [1] * len(reads), share)


def together(plan: QueryPlan, reads: Sequence[PartitionRead]) -> Iterator[list[PartitionRead]]:
    """The partitions whose rows are sorted together: those of a group, or each alone."""
    if not plan.intention.partition_by:
        yield from ([read] for read in reads)
        return
    for _, group in groupby(reads, key=lambda read: read.group):
        yield list(group)


def file_loader(cube: Storage, plan: QueryPlan, opened: list[int] | None = None) -> Load:
    """What reads the rows of a plan from the cube's files; `opened` gets how many files each call opens."""

    def load(
        dataset: str, labels: Sequence[str], columns: Sequence[str], conditions: Conjunction
    ) -> pa.Table:
        if opened is not None:
            opened.append(len(labels))
        return read_rows(cube, labels, plan.loaded_schema(dataset), conditions)

    return load


def joined_together(
    cube: Storage, plan: QueryPlan, reads: Sequence[PartitionRead], opened: list[int] | None = None
) -> pa.Table:
    """Read some partitions, join each, and sort their rows together.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    plan : QueryPlan
        It need not name files.
    reads : sequence of PartitionRead
    opened : list of int, optional
        Gets how many files were opened.
    """
    load = file_loader(cube, plan, opened)
    return concatenated(
        [read_partition(plan, read, load) for read in reads],
        plan.intention.dimension_columns,
        plan.cube.partition_columns,
    )


@dataclass(frozen=True)
class AnswerTasks:
    """Tasks that read and join partitions, some each. They travel, so they are small.

    Attributes
    ----------
    storage : Storage
        At the cube's root.
    plan : QueryPlan
        Without files.
    tasks : Shares
    """

    storage: Storage
    plan: QueryPlan
    tasks: Shares

    @classmethod
    def of(cls, storage: Storage, plan: QueryPlan, cores: int) -> AnswerTasks:
        """Cut a plan into some tasks for each core."""
        return cls(storage, plan.without_files(), shares_for_cores(plan, list(plan.reads()), cores))

    def tables(self, task: int) -> Iterator[pa.Table]:
        """The rows of a task: sorted within each partition of the cube, or within each group."""
        for reads in together(self.plan, self.tasks[task]):
            yield joined_together(self.storage, self.plan, reads)


_LONGEST_FOLDER = 255  # bytes of a name, on most file systems

WRITTEN = pa.schema(
    [("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("opened", pa.int64())]
)
"""What a task says of each file that it wrote; `opened`, how many files of the cube it opened for it."""


@dataclass(frozen=True)
class ResultTasks:
    """The tasks that write the outcome of a query.

    Attributes
    ----------
    cube : Storage
        At the cube's root.
    plan : QueryPlan
        It need not name files.
    tasks : Shares
    keys : tuple of dict
        The key of each group.
    target : Storage
        The folder that the files go to.
    kind : ExportFormat
    origin : Provenance
    """

    cube: Storage
    plan: QueryPlan
    tasks: Shares
    keys: tuple[dict[str, Any], ...]
    target: Storage
    kind: ExportFormat
    origin: Provenance

    @property
    def schema(self) -> pa.Schema:
        """Of the files."""
        return file_schema(self.plan)

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Write the files of a task, and return a row per file."""
        opened: list[int] = []
        groups = together(self.plan, self.tasks[task])
        if not self.plan.intention.partition_by:
            tables = (joined_together(self.cube, self.plan, alone, opened) for alone in groups)
            yield from self._written(f"part-{task:05d}", tables, opened)
            return
        for group in groups:
            rows = joined_together(self.cube, self.plan, group, opened)
            folders = "/".join(value_folders(self.keys[group[0].group]))
            yield from self._written(f"{folders}/part-{task:05d}", iter([rows]), opened)

    def _written(self, name: str, tables: Iterator[pa.Table], opened: list[int]) -> Iterator[pa.RecordBatch]:
        """Write one file, unless there are no rows for it."""
        path, rows, size = "", 0, 0
        first = next((table for table in tables if table.num_rows), None)
        if first is not None:
            path = f"{name}.{self.kind.value}"
            rows, size = self.write(path, chain([first], tables))
        yield pa.record_batch([[path], [rows], [size], [sum(opened)]], schema=WRITTEN)
        opened.clear()

    def write(self, path: str, tables: Iterable[pa.Table]) -> tuple[int, int]:
        """Write one file; return its rows and bytes."""
        done = write_export(
            self.target.uri(path),
            self.schema,
            (table.select(self.schema.names) for table in tables),
            self.kind,
            self.origin,
        )
        return done.rows, done.bytes


def file_schema(plan: QueryPlan) -> pa.Schema:
    """Of the files of an outcome: columns of groups stand in the names of their folders.

    Raises
    ------
    CubeError
        There is no other column.
    """
    fields = [field for field in plan.schema if field.name not in plan.intention.partition_by]
    if not fields:
        raise CubeError(
            f"partition_by: the outcome has no column but {', '.join(plan.intention.partition_by)}, which "
            "stand in the names of folders; name fewer, or more columns"
        )
    return pa.schema(fields)


def check_group_folders(plan: QueryPlan) -> None:
    """Refuse groups whose values are too long for the name of a folder.

    Raises
    ------
    CubeError
    """
    for group in plan.groups:
        for (column, value), folder in zip(group.key.items(), value_folders(group.key), strict=True):
            text = value_text(value)
            if len(folder) > _LONGEST_FOLDER or unquote(folder.rpartition("=")[2]) != text:
                raise CubeError(
                    f"partition_by: a value of {column!r}, {text[:40]!r}..., is too long for the name of a "
                    "folder; leave the column out of partition_by"
                )


def sizes_of_reads(cube: Storage, metadata: CubeMetadata, plan: QueryPlan) -> np.ndarray:
    """Bytes of the files that each read needs, in the order of `plan.reads()`: int64[reads]."""
    parts = [group.partitions for group in plan.groups]
    aligned = pa.concat_tables(parts) if parts else plan.aligned
    total = np.zeros(aligned.num_rows, np.int64)
    for name in plan.intention.load:
        files = read_files(cube, metadata.dataset(name))
        lists = aligned.column(labels_column(name)).combine_chunks()
        labels = lists.flatten()
        places = pc.index_in(labels, value_set=files[PATH].combine_chunks().cast(labels.type))
        sizes = files[BYTES].take(places).to_numpy()
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        total += np.bincount(np.repeat(np.arange(len(counts)), counts), sizes, len(counts)).astype(np.int64)
    return total
