"""The files of a compaction in parts, for tasks to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hipslake.clustering.planning import RewriteGroup
from hipslake.planning.splits import assign_targets
from hipslake.steps.row_routing import runs_of
from hipslake.tables.compaction_protocol import FileAccess, Share

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
