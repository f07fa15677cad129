"""A planned query as text: the tables of every stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.partition_tables import PartitionTables, with_index, without_index
from hipslake.cube.query_plan import INCLUDED, QueryPlan, partition_pruning

MOST_GROUPS = 40


def explain(plan: QueryPlan) -> str:
    """All tables of a planned query, stage by stage, with what was dropped and why.

    Of long tables the first rows are told, and of many groups the first ones; the rest is counted.
    """
    return "\n\n".join(_sections(plan)) + "\n"


def _sections(plan: QueryPlan) -> Iterator[str]:
    yield from _intention(plan)
    for name in [plan.cube.seed, *plan.others]:
        yield f"## Partitions of {name}"
        yield from _partitions(plan.tables[name], plan.intention.partition_by)
    yield "## Alignment"
    yield "inputs:"
    for name in [plan.cube.seed, *plan.others]:
        yield draw(plan.tables[name].compact)
    yield "output:"
    yield draw(plan.aligned)
    fates = partition_pruning(plan)
    dropped = fates.filter(pc.not_equal(fates["fate"], INCLUDED))
    if dropped.num_rows:
        yield "dropped:"
        yield draw(dropped)
    if plan.intention.partition_by:
        yield "## Groups"
        yield f"partition-by: {', '.join(plan.intention.partition_by)}"
        widths = widths_of(plan.aligned)
        for number, group in enumerate(plan.groups[:MOST_GROUPS], start=1):
            yield f"group {number}:"
            yield draw(group.partitions, widths=widths)
        if len(plan.groups) > MOST_GROUPS:
            yield f"... and {len(plan.groups) - MOST_GROUPS} groups more"
    yield "## Joins in every partition"
    yield "\n".join(_joins(plan))


def _intention(plan: QueryPlan) -> Iterator[str]:
    intention = plan.intention
    yield "\n".join(
        [
            f"columns   = [{', '.join(intention.output_columns)}]",
            f"condition = {intention.conditions if intention.conditions.conditions else 'none'}",
            f"cells     = [{', '.join(intention.dimension_columns)}]",
        ]
    )


def _partitions(tables: PartitionTables, partition_by: tuple[str, ...]) -> Iterator[str]:
    dataset, labels = tables.dataset, tables.dataset.labels
    yield draw(tables.physical)
    kept = tables.physical
    physical = tables.conditions.on(dataset.partition_columns)
    if physical.columns:
        kept = physical.meeting(kept)
        yield f"condition = {physical}"
        yield draw(kept)
    for column in sorted(tables.conditions.columns & dataset.secondary):
        condition = tables.conditions.on([column])
        joined = with_index(kept, tables.indices[column], labels)
        met = condition.meeting(joined)
        kept = without_index(met, [column], labels)
        yield f"condition = {condition}"
        for what, table in (
            ("join index information:", joined),
            ("filter:", met),
            ("remove index information:", kept),
        ):
            yield what
            yield draw(table)
    added = [name for name in partition_by if name in dataset.secondary]
    if added:
        yield f"partition-by = {', '.join(added)}"
        yield draw(tables.grouped)
    yield "compacted:"
    yield draw(tables.compact)


def _joins(plan: QueryPlan) -> Iterator[str]:
    seed = plan.cube.seed
    yield f"{seed}: the cells"
    span = set(plan.cube.dimension_columns) & plan.datasets[seed].columns
    if span != set(plan.intention.dimension_columns):
        yield f"{seed}: projected to {', '.join(plan.intention.dimension_columns)}"
    for name in plan.others:
        how = "inner join" if name in plan.intention.restricted else "left join"
        shared = [each for each in plan.intention.dimension_columns if each in plan.datasets[name].columns]
        yield f"{name}: {how} on {', '.join(shared)}"
    for name, conditions in plan.intention.after.items():
        if conditions.columns:
            yield f"{name}: of its rows those with {conditions}"


MOST_ROWS = 40
MOST_ITEMS = 20  # of a list


def draw(table: pa.Table, *, widths: Sequence[int] | None = None) -> str:
    """A table as text, numbers to the right, lists with commas, null as nothing; many rows are only counted.

    Parameters
    ----------
    table : pyarrow.Table
    widths : sequence of int, optional
        Of the columns, from `widths_of` of a larger table.

    Examples
    --------
    >>> print(draw(pa.table({"P": [0, 1], "I1": [1, 20], "labels": [["a"], ["b", "c"]]})))
     P | I1 | labels
    ===+====+========
     0 |  1 | a
     1 | 20 | b, c
    """
    columns = _texts(table)
    spans = widths or [max(map(len, texts)) for texts in columns]
    right = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in table.schema.types]
    names = [texts[0] for texts in columns]
    lines = [_line(names, spans, [False] * len(spans)), "+".join("=" * (n + 2) for n in spans)]
    lines += [_line(row, spans, right) for row in zip(*(texts[1:] for texts in columns), strict=True)]
    if table.num_rows > MOST_ROWS:
        lines.append(f" ... and {table.num_rows - MOST_ROWS} more")
    return "\n".join(lines)


def widths_of(table: pa.Table) -> list[int]:
    """The widths that `draw` gives to the columns of a table."""
    return [max(map(len, texts)) for texts in _texts(table)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return (" " + " | ".join(placed)).rstrip()


def _texts(table: pa.Table) -> list[list[str]]:
    """Per column its name, and its values in the rows that are shown."""
    shown = table.slice(0, MOST_ROWS)
    return [[name, *map(_text, shown.column(name).to_pylist())] for name in table.column_names]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, list):
        return str(value)
    more = [f"... and {len(value) - MOST_ITEMS} more"] if len(value) > MOST_ITEMS else []
    return ", ".join([*map(_text, value[:MOST_ITEMS]), *more])
