"""The partitions of a plan, dealt to tasks, and read and joined there.

No task holds more at a time than the partitions whose rows are sorted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa

from hipslake.cube.cell_joins import concatenated
from hipslake.cube.outcome import read_partition
from hipslake.cube.query_plan import PartitionRead, QueryPlan
from hipslake.cube.store.cube_files import read_rows
from hipslake.predicates.conditions import Conjunction
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

    def load(
        dataset: str, labels: Sequence[str], columns: Sequence[str], conditions: Conjunction
    ) -> pa.Table:
        if opened is not None:
            opened.append(len(labels))
        return read_rows(cube, labels, plan.loaded_schema(dataset), conditions)

    return concatenated(
        [read_partition(plan, read, load) for read in reads],
        plan.intention.dimension_columns,
        plan.cube.partition_columns,
    )
