"""A planned query: stages 1 to 4, for which no data file is opened, and which partitions they prune."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hipslake.cube.dataset import CubeDataset, labels_column
from hipslake.cube.intention import Intention
from hipslake.cube.partition_tables import Group, PartitionTables, align, partition_tables, regroup
from hipslake.cube.row_codes import paired_codes, places_in
from hipslake.cube.sorting import sorted_by
from hipslake.predicates.conditions import Conjunction
from hipslake.specs.cube_spec import CubeColumns


class PartitionRead(NamedTuple):
    """What is read for one partition of one group."""

    group: int
    values: dict[str, Any]  # of the partition columns
    labels: dict[str, list[str]]  # of the files, per dataset
    conditions: dict[str, Conjunction]  # that rows have to meet, per dataset


@dataclass(frozen=True)
class QueryPlan:
    """A query, planned.

    Attributes
    ----------
    cube : CubeColumns
    datasets : dict of str to CubeDataset
        Those that take part.
    intention : Intention
    tables : dict of str to PartitionTables
        Stage 2, per dataset.
    aligned : pyarrow.Table
        Stage 3.
    """

    cube: CubeColumns
    datasets: dict[str, CubeDataset]
    intention: Intention
    tables: dict[str, PartitionTables]
    aligned: pa.Table

    def without_files(self) -> QueryPlan:
        """What tasks need of the plan: how rows are joined, not which files there are."""
        datasets = {name: replace(each, files=each.files.slice(0, 0)) for name, each in self.datasets.items()}
        return QueryPlan(self.cube, datasets, self.intention, {}, self.aligned.slice(0, 0))

    @cached_property
    def groups(self) -> list[Group]:
        """Stage 4."""
        return list(regroup(self.aligned, self.intention.partition_by))

    @property
    def others(self) -> list[str]:
        """The datasets beside the seed, in the order in which they are joined: restricted ones first."""
        rest = [name for name in self.intention.load if name != self.cube.seed]
        return sorted(rest, key=lambda name: (name not in self.intention.restricted, name))

    @property
    def files(self) -> int:
        """How many files are opened, each counted for every partition that needs it."""
        columns = (self.aligned.column(labels_column(name)) for name in self.intention.load)
        return sum(len(column.combine_chunks().flatten()) for column in columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the outcome."""
        fields = {}
        for name in [*reversed(self.others), self.cube.seed]:
            nullable = name != self.cube.seed and name not in self.intention.restricted
            for field in self.datasets[name].schema:
                fields[field.name] = field.with_nullable(nullable or field.nullable)
        return pa.schema([fields[name] for name in self.intention.output_columns])

    def loaded_schema(self, dataset: str) -> pa.Schema:
        """Of the rows that are read of a dataset."""
        schema = self.datasets[dataset].schema
        return pa.schema([schema.field(name) for name in self.intention.load[dataset]])

    def reads(self) -> Iterator[PartitionRead]:
        """What is read, group by group, in the order of the partition columns."""
        for number, group in enumerate(self.groups):
            conditions = {
                name: self.intention.after[name] & group.conditions(sorted(dataset.secondary))
                for name, dataset in self.datasets.items()
            }
            values = group.partitions.select(self.cube.partition_columns).to_pylist()
            labels = {
                name: group.partitions.column(labels_column(name)).to_pylist() for name in self.intention.load
            }
            for row, partition in enumerate(values):
                files = {name: lists[row] or [] for name, lists in labels.items()}
                yield PartitionRead(number, partition, files, conditions)


def plan_query(
    cube: CubeColumns,
    datasets: Mapping[str, CubeDataset],
    intention: Intention,
    indices: Mapping[str, Mapping[str, pa.Table]],
) -> QueryPlan:
    """Plan a query; no file of a dataset is opened.

    Parameters
    ----------
    cube : CubeColumns
    datasets : mapping of str to CubeDataset
    intention : Intention
        From `hipslake.cube.intention.intend`, of these datasets.
    indices : mapping of str to mapping of str to pyarrow.Table
        Per dataset and column, those of `intention.needed_indices`: the column, and the labels.
    """
    taking_part = {name: datasets[name] for name in intention.load}
    tables = {
        name: partition_tables(dataset, intention, indices.get(name, {}))
        for name, dataset in taking_part.items()
    }
    others = {name: table.compact for name, table in tables.items() if name != cube.seed}
    aligned = align(tables[cube.seed].compact, others, intention.restricted)
    return QueryPlan(cube, taking_part, intention, tables, aligned)


INCLUDED = "included"


def partition_pruning(plan: QueryPlan) -> pa.Table:
    """The partitions of all datasets that are cut by all partition columns, each with its fate.

    Returns
    -------
    pyarrow.Table
        The partition columns; `datasets`, those that have the partition; `fate`: `included`, or why it was
        dropped: `the seed ... is missing`, `... is missing` for a restricted dataset, `no file of ... meets
        ...`.
    """
    keys = list(plan.cube.partition_columns)
    whole = {
        name: table for name, table in plan.tables.items() if set(keys) == {*table.dataset.partition_columns}
    }
    every = _distinct(pa.concat_tables([table.physical.select(keys) for table in whole.values()]), keys)
    fate = np.full(every.num_rows, INCLUDED, object)
    names = np.full(every.num_rows, "", object)
    for name in [plan.cube.seed, *plan.others]:
        if name not in whole:
            continue
        present = _among(every, whole[name].physical, keys)
        names[present] = [f"{text}, {name}".removeprefix(", ") for text in names[present]]
        if name == plan.cube.seed or name in plan.intention.restricted:
            kept = _among(every, whole[name].grouped, keys)
            open_case = fate == INCLUDED
            what = f"the seed {name}" if name == plan.cube.seed else name
            fate[open_case & ~present] = f"{what} is missing"
            fate[open_case & present & ~kept] = f"no file of {name} meets {plan.intention.before[name]}"
    joined = _among(every, plan.aligned, keys)
    fate[(fate == INCLUDED) & ~joined] = "no file of a restricted dataset belongs to it"
    return every.append_column("datasets", pa.array(names, pa.string())).append_column(
        "fate", pa.array(fate, pa.string())
    )


def _distinct(table: pa.Table, keys: list[str]) -> pa.Table:
    return sorted_by(table.group_by(keys, use_threads=False).aggregate([]), keys)


def _among(table: pa.Table, other: pa.Table, keys: list[str]) -> np.ndarray:
    found: np.ndarray = places_in(*paired_codes(table, other, keys)) >= 0
    return found
