"""Shuffle planning: which rows go to which task, so that a table gets few files, and no task all the work.

The four cases are those of RisingWave's RFC 77: by whether rows replace others (upsert), and by whether every
partition transform is a period of time (range-only). Beyond it, values are assigned to tasks, not hashed; a
value with many rows is spread over several tasks, and values with few share one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hipslake.specs.partition_fields import PartitionField

TASK_BYTES = 128 << 20
"""Encoded bytes that a task writes, about, unless one file is larger."""

SLACK = 1.25
"""How far above the target size a file may be, so that slightly more than one file's rows stay in one."""

FILE_BYTES = 2 << 10
"""Bytes of a file besides its rows, about: they count where there are thousands of small files."""

_TASKS_PER_CORE = 2
_MOST_UNSHUFFLED = 2.0  # times the files of a shuffle that are a fair price for none

Int64s = NDArray[np.int64]


class ShuffleCase(IntEnum):
    """The cases of the RFC."""

    APPEND_RANGE_ONLY = 1
    APPEND = 2
    UPSERT_RANGE_ONLY = 3
    UPSERT = 4

    @classmethod
    def of(cls, *, upsert: bool, range_only: bool) -> ShuffleCase:
        """Return the case of a sink."""
        if upsert:
            return cls.UPSERT_RANGE_ONLY if range_only else cls.UPSERT
        return cls.APPEND_RANGE_ONLY if range_only else cls.APPEND


@dataclass(frozen=True)
class ValueCounts:
    """How many rows of each partition value each source task has; a pair that has none may be missing.

    Attributes
    ----------
    source, value, rows : int64[n]
        Number of the source task, number of the partition value, rows; each pair once.
    values : int
        Number of partition values.
    """

    source: Int64s
    value: Int64s
    rows: Int64s
    values: int

    @property
    def totals(self) -> Int64s:
        """Rows of each value, int64[values]."""
        totals = np.zeros(self.values, np.int64)
        np.add.at(totals, self.value, self.rows)
        return totals

    def first_ranks(self) -> Int64s:
        """For each pair, how many rows of its value lie in sources of lower number, int64[n]."""
        order = np.lexsort((self.source, self.value))
        rows, value = self.rows[order], self.value[order]
        before = np.cumsum(rows) - rows
        first = np.searchsorted(value, value)
        ranks = np.empty(len(rows), np.int64)
        ranks[order] = before - (before[first] if len(first) else 0)
        return ranks


@dataclass(frozen=True)
class ShufflePlan:
    """Where rows go, and how many files come of it.

    A value's rows, in source order, are cut into `files` runs of equal length (the row of rank r goes to run
    r * files // total); each run is one file, and each file has a task. Without a
    shuffle, each source task writes what it reads, and cuts it likewise.

    Attributes
    ----------
    case : ShuffleCase
    shuffled : bool
        Whether rows are routed at all.
    fields : tuple of str
        What rows are routed by: names of the key, texts of the partition fields.
    counts : ValueCounts
    row_bytes : float
        Encoded bytes of a row, about.
    target_bytes : int
        Of a file.
    files : int64[values]
        Files of each value; without a shuffle, over all source tasks.
    first_file : int64[values]
        Number of each value's first file.
    task : int64[files]
        Task of each file. Without a shuffle: empty.
    tasks : int
    reason : str
        Why rows are, or are not, routed.
    """

    case: ShuffleCase
    shuffled: bool
    fields: tuple[str, ...]
    counts: ValueCounts
    row_bytes: float
    target_bytes: int
    files: Int64s
    first_file: Int64s
    task: Int64s
    tasks: int
    reason: str

    @property
    def expected_files(self) -> int:
        """How many files there will be, exactly."""
        return int(self.files.sum())

    @property
    def file_rows(self) -> Int64s:
        """Rows of each file of a shuffle, int64[files]."""
        return _file_rows(self.counts.totals, self.files)

    @property
    def task_bytes(self) -> Int64s:
        """Encoded bytes that each task writes, about, int64[tasks]; without a shuffle, by source task."""
        if not self.shuffled:
            rows = np.zeros(self.tasks, np.int64)
            np.add.at(rows, self.counts.source, self.counts.rows)
            return (rows * self.row_bytes).astype(np.int64)
        sizes = _file_sizes(self.counts.totals, self.files, self.row_bytes)
        return np.bincount(self.task, weights=sizes, minlength=self.tasks).astype(np.int64)

    def files_apart(self, rows: int) -> int:
        """How many files a source task makes of its rows of one value, without a shuffle."""
        return int(_files(np.array([rows], np.int64), self.row_bytes, self.target_bytes)[0])

    def explain(self) -> str:
        """Say in words what is done, why, and what comes of it."""
        totals = self.counts.totals
        rows = int(totals.sum())
        many, few = int((self.files > 1).sum()), len(totals)
        lines = [
            f"Shuffle plan: case {self.case.value} of 4, {_NAMES[self.case]}.",
            f"  {self.reason}",
            f"  {rows:,} rows of {few:,} partition values, about {_size(rows * self.row_bytes)} "
            f"({self.row_bytes:.1f} bytes per row).",
            f"  Expected files: {self.expected_files:,}, target {_size(self.target_bytes)} each.",
        ]
        if self.shuffled and rows:
            load = self.task_bytes
            lines.append(
                f"  Tasks: {self.tasks:,}; values are assigned, not hashed: the fullest task has "
                f"{load.max() / max(load.mean(), 1):.2f} times the mean."
            )
        if self.shuffled and many:
            lines.append(
                f"  Hot values: {many:,}, cut into {int(self.files[self.files > 1].sum()):,} files, "
                f"the hottest into {int(self.files.max()):,}."
            )
        if self.case in (ShuffleCase.UPSERT, ShuffleCase.UPSERT_RANGE_ONLY):
            lines.append(
                "  Old versions of rows are looked for by key in every partition whose files may hold one."
            )
        return "\n".join(lines)


_NAMES = {
    ShuffleCase.APPEND_RANGE_ONLY: "append, range-only partitioning",
    ShuffleCase.APPEND: "append, partitioning that is not range-only",
    ShuffleCase.UPSERT_RANGE_ONLY: "upsert, range-only partitioning",
    ShuffleCase.UPSERT: "upsert, partitioning that is not range-only",
}


def plan_shuffle(
    counts: ValueCounts,
    *,
    partition: Sequence[PartitionField],
    upsert: bool,
    key: Sequence[str] = (),
    sources: int,
    row_bytes: float,
    target_bytes: int,
    cores: int,
    rewrites: bool = False,
    even: bool = False,
    rolling: bool = False,
    task_bytes: int = TASK_BYTES,
) -> ShufflePlan:
    """Decide where rows go.

    Parameters
    ----------
    counts : ValueCounts
        Of the rows that will be written.
    partition : sequence of PartitionField
    upsert : bool
    key : sequence of str
        Columns of the key, for an upsert.
    sources : int
        Number of source tasks.
    row_bytes : float
        Encoded bytes of a row, about.
    target_bytes : int
        Of a file.
    cores : int
        Tasks that run at once.
    rewrites : bool
        Whether rows of files that are replaced are written along; then there is always a shuffle.
    even : bool
        Whether rows are put in order over files; then too, and files are as near to the target as can be.
    rolling : bool
        Whether each value's rows fill one file after another, and are never written apart.
    task_bytes : int
        Encoded bytes that a task writes, about.
    """
    range_only = all(field.transform.is_range_only for field in partition)
    case = ShuffleCase.of(upsert=upsert, range_only=range_only)
    totals = counts.totals
    if rolling:
        files = -(-totals // most_file_rows(row_bytes, target_bytes))
    else:
        files = _files(totals, row_bytes, target_bytes, even=even)
    apart = _files(counts.rows, row_bytes, target_bytes)
    names = tuple(str(field) for field in partition)
    by = ", ".join(names) or "no field"
    if case is ShuffleCase.APPEND_RANGE_ONLY and not (rewrites or even or rolling):
        unshuffled, least = int(apart.sum()), int(files.sum())
        if unshuffled <= _MOST_UNSHUFFLED * least:
            per_value = np.zeros(counts.values, np.int64)
            np.add.at(per_value, counts.value, apart)
            reason = (
                f"No shuffle: each task writes the values that it meets ({by}), {unshuffled} files in all; a "
                f"shuffle would make {least}."
            )
            nothing = np.empty(0, np.int64)
            return ShufflePlan(
                case, False, (), counts, row_bytes, target_bytes, per_value,
                np.cumsum(per_value) - per_value, nothing, sources, reason,
            )  # fmt: skip
        reason = (
            f"Shuffled by {by}, although it is range-only: the tasks meet so many values that without a "
            f"shuffle there would be {unshuffled} files, not {least}."
        )
        fields = names
    elif rolling:
        fields = names
        reason = (
            f"Written by partition ({by}) as rows come, in one pass: a value's next file follows a full one."
        )
    elif case is ShuffleCase.UPSERT_RANGE_ONLY:
        fields = (*key, *names)
        reason = (
            f"Shuffled by key ({', '.join(key)}) and partition ({by}), so that one period fills many tasks."
        )
    else:
        fields = names
        reason = f"Shuffled by partition ({by}), so that each value's rows meet in few files."
    sizes = _file_sizes(totals, files, row_bytes)
    tasks = _task_count(sizes, cores, max(task_bytes, target_bytes))
    return ShufflePlan(
        case, True, fields, counts, row_bytes, target_bytes, files,
        np.cumsum(files) - files, _assigned(sizes, tasks), tasks, reason,
    )  # fmt: skip


def _files(rows: Int64s, row_bytes: float, target_bytes: int, *, even: bool = False) -> Int64s:
    size = rows * row_bytes / target_bytes
    files = (np.floor(size + 0.5) if even else np.ceil(size / SLACK)).astype(np.int64)
    return np.clip(files, np.minimum(rows, 1), rows)


def most_file_rows(row_bytes: float, target_bytes: int) -> int:
    """The most rows of a file, at least 1."""
    return max(1, int(SLACK * target_bytes / row_bytes))


def _file_rows(totals: Int64s, files: Int64s) -> Int64s:
    """Rows of each file: those of rank r go to file r * files // total."""
    value = np.repeat(np.arange(len(files)), files)
    number = np.arange(len(value)) - np.repeat(np.cumsum(files) - files, files)
    count, total = files[value], totals[value]
    start = -(-number * total // count)
    stop = -(-(number + 1) * total // count)
    rows: Int64s = stop - start
    return rows


def _file_sizes(totals: Int64s, files: Int64s, row_bytes: float) -> NDArray[np.floating]:
    return _file_rows(totals, files) * row_bytes + FILE_BYTES


def _task_count(sizes: NDArray[np.floating], cores: int, task_bytes: int) -> int:
    """So many tasks that none is too large, yet few enough that the largest file is no more than a share."""
    if not len(sizes):
        return 1
    total, largest = float(sizes.sum()), float(sizes.max())
    wanted = max(_TASKS_PER_CORE * cores, int(np.ceil(total / task_bytes)))
    return int(max(1, min(wanted, total // max(largest, 1e-9))))


def _assigned(sizes: NDArray[np.floating], tasks: int) -> Int64s:
    """Give each file a task, the largest first, each to the task with the least so far.

    With files no larger than the mean of the tasks, no task gets more than twice the mean.
    """
    assigned = np.zeros(len(sizes), np.int64)
    if tasks == 1:
        return assigned
    loads = [(0.0, task) for task in range(tasks)]
    for file in np.argsort(-sizes, kind="stable").tolist():
        load, task = loads[0]
        assigned[file] = task
        heapq.heapreplace(loads, (load + float(sizes[file]), task))
    return assigned


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")
