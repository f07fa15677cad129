"""A cube in memory: files are tables in a dictionary, so that every file that a query opens is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from hipslake.cube.cell_joins import GroupRows, outcome, read_partition
from hipslake.cube.dataset import CubeDataset, labels_column
from hipslake.cube.intention import intend
from hipslake.cube.query_plan import QueryPlan, plan_query
from hipslake.predicates.conditions import Conjunction
from hipslake.specs.cube_spec import CubeColumns


class MemoryCube:
    """A cube whose datasets are given as files: a label, the values of its partition columns, and its rows.

    Parameters
    ----------
    cube : CubeColumns
    partition_types : mapping of str to pyarrow.DataType
        Of the partition columns.
    """

    def __init__(self, cube: CubeColumns, partition_types: Mapping[str, pa.DataType]) -> None:
        self.cube = cube
        self.types = dict(partition_types)
        self.rows: dict[str, pa.Table] = {}
        self.datasets: dict[str, CubeDataset] = {}
        self.indices: dict[str, dict[str, pa.Table]] = {}
        self.opened: Counter[str] = Counter()

    def add(
        self,
        name: str,
        files: Sequence[tuple[str, Sequence[Any], pa.Table]],
        *,
        partition_columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        cut = tuple(self.cube.partition_columns if partition_columns is None else partition_columns)
        schema = schema or files[0][2].schema
        labels = [label for label, _, _ in files]
        columns = {
            column: pa.array([values[at] for _, values, _ in files], self.types[column])
            for at, column in enumerate(cut)
        }
        for label, _, table in files:
            self.rows[label] = table
        secondary = set(self.cube.index_columns) & set(schema.names)
        if name == self.cube.seed:
            secondary |= self.cube.seed_index_columns
        self.indices[name] = {column: self._index(name, column, files, schema) for column in secondary}
        self.datasets[name] = CubeDataset(
            name=name,
            schema=pa.schema([pa.field(column, self.types[column]) for column in cut] + list(schema)),
            partition_columns=cut,
            secondary=frozenset(secondary),
            files=pa.table({**columns, labels_column(name): pa.array(labels, pa.string())}),
        )

    def _index(
        self, name: str, column: str, files: Sequence[tuple[str, Sequence[Any], pa.Table]], schema: pa.Schema
    ) -> pa.Table:
        values: list[pa.Array] = []
        labels: list[str] = []
        for label, _, table in files:
            found = table.column(column).combine_chunks().unique()
            values.append(found)
            labels += [label] * len(found)
        kind = schema.field(column).type
        return pa.table(
            {
                column: pa.chunked_array(values, kind).combine_chunks(),
                labels_column(name): pa.array(labels, pa.string()),
            }
        )

    def plan(self, datasets: Sequence[str] | None = None, **query: Any) -> QueryPlan:
        chosen = {name: self.datasets[name] for name in datasets or self.datasets}
        intention = intend(self.cube, chosen, **query)
        needed = {
            name: {column: self.indices[name][column] for column in columns}
            for name, columns in intention.needed_indices(chosen).items()
        }
        return plan_query(self.cube, chosen, intention, needed)

    def query(self, datasets: Sequence[str] | None = None, **query: Any) -> list[GroupRows]:
        plan = self.plan(datasets, **query)
        reads = plan.reads()
        return list(outcome(plan, ((read, read_partition(plan, read, self._load)) for read in reads)))

    def rows_of(self, **query: Any) -> list[dict[str, Any]]:
        (group,) = self.query(**query)
        rows: list[dict[str, Any]] = group.rows.to_pylist()
        return rows

    def _load(
        self, dataset: str, labels: Sequence[str], columns: Sequence[str], conditions: Conjunction
    ) -> pa.Table:
        self.opened.update(labels)
        tables = pa.concat_tables([self.rows[label] for label in labels])
        return conditions.meeting(tables).select(columns)
