"""Stage 5 and 6 for all partitions: what a planned query gives, group by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from hipslake.cube.cell_joins import concatenated
from hipslake.cube.query_plan import PartitionRead, QueryPlan
from hipslake.predicates.conditions import Conjunction

Load = Callable[[str, Sequence[str], Sequence[str], Conjunction], pa.Table]
"""Takes a dataset, labels, columns and conditions; gives the rows of these files that meet the conditions."""


class GroupRows(NamedTuple):
    """The rows of one group."""

    key: dict[str, Any]  # the columns of partition_by with their values
    rows: pa.Table


def read_partition(plan: QueryPlan, read: PartitionRead, load: Load) -> pa.Table:
    """The joined rows of one partition of one group; no rows are loaded once none can be left."""
    seed = plan.cube.seed
    rows = {name: plan.loaded_schema(name).empty_table() for name in plan.intention.load}
    for name in [seed, *plan.others]:
        if read.labels[name]:
            rows[name] = load(name, read.labels[name], plan.intention.load[name], read.conditions[name])
        inner = name == seed or name in plan.intention.restricted
        if inner and not rows[name].num_rows:
            break
    return plan.join(read, rows)


def outcome(plan: QueryPlan, partitions: Iterable[tuple[PartitionRead, pa.Table]]) -> Iterator[GroupRows]:
    """The groups that have rows, in the order of their keys; without partition_by exactly one.

    Parameters
    ----------
    plan : QueryPlan
    partitions : iterable of (PartitionRead, pyarrow.Table)
        From `read_partition`, in the order of `plan.reads()`.
    """
    given = False
    for number, group in groupby(partitions, key=lambda each: each[0].group):
        rows = concatenated(
            [plan.schema.empty_table(), *(table for _, table in group)],
            plan.intention.dimension_columns,
            plan.cube.partition_columns,
        )
        if rows.num_rows or not plan.intention.partition_by:
            given = True
            yield GroupRows(plan.groups[number].key, rows)
    if not given and not plan.intention.partition_by:
        yield GroupRows({}, plan.schema.empty_table())
