"""Stages 5 and 6 of a query: the rows of each partition are joined, and partitions concatenated by group.

The cells come from the seed. Restricted datasets are joined inner, others are joined left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hipslake.cube.query_plan import PartitionRead, QueryPlan
from hipslake.cube.row_codes import bounds_of, paired_codes, places_in
from hipslake.cube.sorting import sorted_by
from hipslake.predicates.conditions import Conjunction


def last_per_cell(table: pa.Table, cell: Sequence[str]) -> pa.Table:
    """The last row of every cell, in the order of the cells.

    Parameters
    ----------
    table : pyarrow.Table
        Rows in the order in which they were written.
    cell : sequence of str
        The columns that make a cell. With none, all rows are one.

    Examples
    --------
    >>> last_per_cell(pa.table({"x": [2, 1, 2], "v": ["a", "b", "c"]}), ["x"]).to_pydict()
    {'x': [1, 2], 'v': ['b', 'c']}
    """
    ordered = sorted_by(table, cell)
    bounds = bounds_of(ordered, cell)
    if len(bounds) == ordered.num_rows + 1:
        return ordered
    return ordered.take(pa.array(bounds[1:] - 1))


def joined(
    seed: pa.Table,
    restricted: Iterable[pa.Table],
    enrichments: Iterable[pa.Table],
    dimension_columns: Sequence[str],
) -> pa.Table:
    """Join the rows of one partition: the seed's cells, and what the other datasets know of them.

    Parameters
    ----------
    seed : pyarrow.Table
        Its rows that meet the query's conditions. Where it is projected, cells become one.
    restricted, enrichments : iterable of pyarrow.Table
        Their rows that meet the conditions: some of the dimension columns, and payload.
    dimension_columns : sequence of str
        Of the query.
    """
    found = last_per_cell(seed, [name for name in dimension_columns if name in seed.column_names])
    for other in restricted:
        places = _places(found, other, dimension_columns)
        met = places >= 0
        if not met.all():
            found, places = found.filter(pa.array(met)), places[met]
        found = _with_payload(found, other, pa.array(places))
    for other in enrichments:
        places = _places(found, other, dimension_columns)
        found = _with_payload(found, other, pa.array(places, mask=places < 0))
    return found


def concatenated(
    partitions: Sequence[pa.Table], dimension_columns: Sequence[str], partition_columns: Sequence[str]
) -> pa.Table:
    """Partitions one after the other, then sorted by dimension and partition columns.

    Parameters
    ----------
    partitions : sequence of pyarrow.Table
        In the order of the partition columns; at least one, which may be empty.
    dimension_columns, partition_columns : sequence of str
    """
    return sorted_by(pa.concat_tables(partitions), [*dimension_columns, *partition_columns])


def with_constants(table: pa.Table, values: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """A table with the columns of a schema, in its order; those in `values` hold one value throughout."""
    columns = [
        pa.repeat(pa.scalar(values[field.name], field.type), table.num_rows)
        if field.name in values
        else table.column(field.name)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _places(found: pa.Table, other: pa.Table, dimension_columns: Sequence[str]) -> np.ndarray:
    shared = [name for name in dimension_columns if name in other.column_names and name in found.column_names]
    return places_in(*paired_codes(found, other, shared))


def _with_payload(found: pa.Table, other: pa.Table, places: pa.Array) -> pa.Table:
    payload = [name for name in other.column_names if name not in found.column_names]
    taken = other.select(payload).take(places)
    for name in payload:
        found = found.append_column(taken.schema.field(name), taken.column(name))
    return found


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
    found = joined(
        rows[seed],
        [rows[name] for name in plan.others if name in plan.intention.restricted],
        [rows[name] for name in plan.others if name not in plan.intention.restricted],
        plan.intention.dimension_columns,
    )
    return with_constants(found, read.values, plan.schema)


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
