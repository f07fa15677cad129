"""Random cubes and queries, and what a query gives when it is answered by brute force with pandas."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
from hipslake.predicates.conditions import C, Condition
from hipslake.specs.cube_spec import CubeColumns

KINDS = {
    "int": (pa.int64(), [-3, 0, 1, 2, 7]),
    "text": (pa.string(), ["", "a", "b", "ä c", "Z"]),
    "flag": (pa.bool_(), [False, True]),
    "real": (pa.float64(), [-1.5, 0.0, 2.0, 2.5]),
}
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass
class RandomDataset:
    """One dataset: how it is cut, and its rows."""

    name: str
    partition_columns: list[str]
    dimensions: list[str]
    payload: list[str]
    rows: list[dict[str, Any]]

    @property
    def cell(self) -> list[str]:
        return [*self.partition_columns, *self.dimensions]

    @property
    def columns(self) -> list[str]:
        return [*self.cell, *self.payload]


@dataclass
class RandomCube:
    """A cube: its columns, their types, and its datasets, the seed first."""

    cube: CubeColumns
    kinds: dict[str, str]
    datasets: list[RandomDataset]

    def schema(self, dataset: RandomDataset) -> pa.Schema:
        return pa.schema([(name, KINDS[self.kinds[name]][0]) for name in dataset.columns])

    def table(self, dataset: RandomDataset) -> pa.Table:
        return pa.Table.from_pylist(dataset.rows, self.schema(dataset))


def random_cube(random: Random) -> RandomCube:
    dimensions = ["x", "y", "z"][: random.randint(1, 3)]
    partitions = ["P", "Q"][: random.randint(1, 2)]
    kinds = {name: random.choice(["int", "text"]) for name in dimensions}
    kinds |= {name: random.choice(["int", "text", "flag"]) for name in partitions}
    datasets, indexed = [], []
    for name in ["seed", "checks", "extra", "late"][: random.randint(1, 4)]:
        is_seed = name == "seed"
        cut = [p for p in partitions if is_seed or random.random() < 0.75]
        span = (
            dimensions if is_seed else sorted(random.sample(dimensions, random.randint(1, len(dimensions))))
        )
        payload = [f"{name}_{n}" for n in range(random.randint(0 if is_seed else 1, 2))]
        for column in payload:
            kinds[column] = random.choice(list(KINDS))
            if random.random() < 0.4:
                indexed.append(column)
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for _ in range(random.choice([0, 1, 5, 20]) if not is_seed else random.choice([1, 10, 30])):
            cell = {column: random.choice(KINDS[kinds[column]][1][:4]) for column in [*cut, *span]}
            values = {
                column: None
                if column not in indexed and random.random() < 0.3
                else random.choice(KINDS[kinds[column]][1])
                for column in payload
            }
            rows[tuple(cell.values())] = cell | values
        datasets.append(RandomDataset(name, cut, list(span), payload, list(rows.values())))
    columns = CubeColumns(
        dimension_columns=tuple(dimensions),
        partition_columns=tuple(partitions),
        index_columns=tuple(indexed),
        suppress_index_on=tuple(name for name in dimensions if random.random() < 0.5),
    )
    return RandomCube(columns, kinds, datasets)


@dataclass
class RandomQuery:
    """A query, with each of its conditions also as a function of a value."""

    columns: list[str] | None
    conditions: list[tuple[Condition, Any]]
    partition_by: list[str] | None
    dimension_columns: list[str] | None

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "columns": self.columns,
            "conditions": [condition for condition, _ in self.conditions],
            "partition_by": self.partition_by,
            "dimension_columns": self.dimension_columns,
        }


def random_query(random: Random, cube: RandomCube) -> RandomQuery:
    roles = cube.cube
    dimensions = list(roles.dimension_columns)
    projected = random.random() < 0.3 and len(dimensions) > 1
    if projected:
        dimensions = sorted(random.sample(dimensions, random.randint(1, len(dimensions) - 1)))
    elif random.random() < 0.3:
        random.shuffle(dimensions)
    whole = [each for each in cube.datasets if set(each.dimensions) <= set(dimensions)]
    usable = sorted({*roles.partition_columns, *dimensions, *(c for each in whole for c in each.payload)})
    columns = None
    if projected or random.random() < 0.6:
        columns = random.sample(usable, random.randint(0, len(usable)))
    indexed = {*roles.partition_columns, *roles.seed_index_columns, *roles.index_columns} & set(usable)
    groups = random.sample(sorted(indexed), min(len(indexed), random.randint(1, 2)))
    conditional = sorted({*usable, *roles.dimension_columns})
    conditions = [
        random_condition(random, name, cube.kinds[name])
        for name in random.choices(conditional, k=random.choice([0, 1, 1, 2, 3]))
    ]
    return RandomQuery(
        columns,
        conditions,
        groups if random.random() < 0.4 else None,
        dimensions if projected or random.random() < 0.3 else None,
    )


def random_condition(random: Random, name: str, kind: str) -> tuple[Condition, Any]:
    values = KINDS[kind][1]
    value = random.choice(values)
    pick = random.randint(0, 9)
    if pick == 0:
        some = random.sample(values, random.randint(0, 2))
        return C(name).isin(some), lambda each: each is not None and each in some
    if pick == 1 and kind != "flag":
        low, high = sorted([random.choice(values), value])
        return C(name).in_interval(low, high), lambda each: each is not None and low <= each < high
    if pick == 2:
        return C(name).not_null(), lambda each: each is not None
    if pick == 3:
        return C(name).is_null(), lambda each: each is None
    sign = random.choice(list(COMPARISONS) if kind != "flag" else ["==", "!="])
    compare = COMPARISONS[sign]
    condition = {
        "==": C(name) == value,
        "!=": C(name) != value,
        "<": C(name) < value,
        "<=": C(name) <= value,
        ">": C(name) > value,
        ">=": C(name) >= value,
    }[sign]
    return condition, lambda each: each is not None and compare(each, value)


def brute_force(cube: RandomCube, query: RandomQuery) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The groups of a query, by merging whole datasets: no partitions, no files, no indices."""
    roles = cube.cube
    dimensions = query.dimension_columns or list(roles.dimension_columns)
    known = {column for each in cube.datasets for column in each.columns}
    asked = known if query.columns is None else set(query.columns)
    output = sorted({*asked, *dimensions, *roles.partition_columns, *(query.partition_by or [])})
    restricting = {condition.column for condition, _ in query.conditions} | set(query.partition_by or [])
    seed, *others = [(each, _filtered(each, query)) for each in cube.datasets]
    frame = seed[1]
    for each, right in sorted(others, key=lambda pair: pair[0].name):
        used = (set(each.payload) & (set(output) | restricting)) != set()
        if not used:
            continue
        how = "inner" if set(each.payload) & restricting else "left"
        frame = frame.merge(right, how=how, on=each.cell)
    order = [*dimensions, *roles.partition_columns]
    rows = [{name: _plain(row[name]) for name in output} for row in frame.to_dict("records")]
    cells = {tuple(row[name] for name in order): row for row in rows}
    rows = [cells[key] for key in sorted(cells)]
    if not query.partition_by:
        return [({}, rows)]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in query.partition_by), []).append(row)
    return [(dict(zip(query.partition_by, key, strict=True)), groups[key]) for key in sorted(groups)]


def _filtered(dataset: RandomDataset, query: RandomQuery) -> pd.DataFrame:
    rows = dataset.rows
    for condition, meets in query.conditions:
        if condition.column in dataset.columns:
            rows = [row for row in rows if meets(row[condition.column])]
    return pd.DataFrame(rows, columns=dataset.columns, dtype=object)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value
