"""A cube as its users see it: one large virtual table. Partitions and datasets do not show."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hipslake.cube.dataset import CubeDataset
from hipslake.cube.explanation import explain
from hipslake.cube.fates import partition_fates
from hipslake.cube.intention import intend
from hipslake.cube.outcome import GroupRows, outcome, read_partition
from hipslake.cube.query_plan import PartitionRead, QueryPlan, plan_query
from hipslake.cube.store.alignment import read_alignment
from hipslake.cube.store.cube_commit import read_version
from hipslake.cube.store.cube_files import planned, read_index, read_rows
from hipslake.cube.store.joined_rows import read_joined
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.predicates.conditions import Conditions, Conjunction
from hipslake.storage.folder import Storage

if TYPE_CHECKING:
    import pandas as pd


class Cube:
    """One version of a cube.

    Examples
    --------
    >>> cube = Cube.open("warehouse/cubes/sky")  # doctest: +SKIP
    >>> good = (C("OK") == True) & C("HIP").isin([71683])  # doctest: +SKIP
    >>> cube.query(columns=["period"], conditions=good)  # doctest: +SKIP
    """

    def __init__(self, storage: Storage, metadata: CubeMetadata) -> None:
        self._storage = storage
        self.metadata = metadata

    @classmethod
    def open(cls, uri: str | Path, version: int | None = None) -> Cube:
        """Open a version, by default the newest.

        Raises
        ------
        CatalogNotFoundError
            There is no cube.
        VersionNotFoundError
            There is no such version, or it was vacuumed.
        """
        storage = Storage.at(uri)
        return cls(storage, read_version(storage, version))

    @property
    def storage(self) -> Storage:
        """At the cube's root."""
        return self._storage

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.metadata.version

    @property
    def datasets(self) -> list[str]:
        """The names of the datasets, sorted."""
        return self.metadata.names

    @property
    def columns(self) -> list[str]:
        """The columns of the virtual table, sorted."""
        return sorted({column.name for each in self.metadata.datasets for column in each.columns})

    def __repr__(self) -> str:
        return f"Cube({self._storage.uri()!r}, version={self.version}, datasets={self.datasets})"

    def query(
        self,
        columns: Iterable[str] | None = None,
        conditions: Conditions | str = None,
        partition_by: str | Sequence[str] | None = None,
        dimension_columns: str | Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
    ) -> pa.Table:
        """The rows of the virtual table that meet some conditions.

        Parameters
        ----------
        columns : iterable of str, optional
            Payload; dimension, partition and group columns always come. By default all.
        conditions : Conditions or str
            A text as `hipslake.predicates.condition_text.parse_conditions` takes it.
            Such as `(C("OK") == True) & C("I1").isin([1, 2])`.
        partition_by : str or sequence of str, optional
            Indexed columns: rows come group by group, in the order of these.
        dimension_columns : str or sequence of str, optional
            Some of the cube's, for a projection.
        datasets : sequence of str, optional
            Only what these know; the seed is one of them.

        Returns
        -------
        pyarrow.Table
            Columns in alphabetical order; rows, within a group, in that of the dimension columns and then of
            the partition columns.

        Raises
        ------
        CubeError
            The cube lacks what is asked for.
        ConditionTypeError
            A condition compares a column with a value of another type.
        VerificationError
            A file is missing or damaged.
        """
        plan = self.plan(columns, conditions, partition_by, dimension_columns, datasets)
        return pa.concat_tables([plan.schema.empty_table(), *(rows for _, rows in self._outcome(plan))])

    def groups(
        self,
        columns: Iterable[str] | None = None,
        conditions: Conditions | str = None,
        partition_by: str | Sequence[str] | None = None,
        dimension_columns: str | Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
    ) -> Iterator[GroupRows]:
        """The groups of `partition_by` that have rows, one after the other; parameters as for `query`."""
        yield from self._outcome(self.plan(columns, conditions, partition_by, dimension_columns, datasets))

    def frames(
        self,
        columns: Iterable[str] | None = None,
        conditions: Conditions | str = None,
        partition_by: str | Sequence[str] | None = None,
        dimension_columns: str | Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
    ) -> Iterator[pd.DataFrame]:
        """As `groups`, as pandas frames."""
        for _, rows in self.groups(columns, conditions, partition_by, dimension_columns, datasets):
            yield rows.to_pandas()

    def explain(
        self,
        columns: Iterable[str] | None = None,
        conditions: Conditions | str = None,
        partition_by: str | Sequence[str] | None = None,
        dimension_columns: str | Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
    ) -> str:
        """How a query would be answered: the tables of all stages. No data file is opened."""
        return explain(
            self.plan(columns, conditions, partition_by, dimension_columns, datasets, whole_indices=True)
        )

    def fates(self, conditions: Conditions | str = None, columns: Iterable[str] | None = None) -> pa.Table:
        """Which partitions a query would include, and why it would drop others; no data file is opened."""
        return partition_fates(self.plan(columns, conditions))

    def alignment(self) -> pa.Table:
        """The alignment table of the version, as `hipslake.cube.store.alignment.alignment_table` gives it.

        Raises
        ------
        CubeError
            It has none, as no spec was followed when it was made.
        """
        return read_alignment(self._storage, self.metadata)

    def joined(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The joined rows that the version keeps, partition by partition; by default all columns.

        Raises
        ------
        CubeError
            It keeps none.
        VerificationError
            A file is missing or damaged.
        """
        return read_joined(self._storage, self.metadata, columns)

    def plan(
        self,
        columns: Iterable[str] | None = None,
        conditions: Conditions | str = None,
        partition_by: str | Sequence[str] | None = None,
        dimension_columns: str | Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        *,
        whole_indices: bool = False,
    ) -> QueryPlan:
        """Plan a query; parameters as for `query`. `whole_indices` also reads what conditions rule out."""
        chosen = self._chosen(datasets)
        intention = intend(
            self.metadata.roles,
            chosen,
            columns=columns,
            conditions=conditions,
            partition_by=partition_by,
            dimension_columns=dimension_columns,
        )
        indices: dict[str, dict[str, pa.Table]] = {}
        for name, needed in intention.needed_indices(chosen).items():
            for column in needed:
                asked = None if whole_indices else intention.before[name].on([column])
                indices.setdefault(name, {})[column] = read_index(
                    self._storage, self.metadata.dataset(name), column, asked
                )
        return plan_query(self.metadata.roles, chosen, intention, indices)

    def load(
        self,
        plan: QueryPlan,
        dataset: str,
        labels: Sequence[str],
        columns: Sequence[str],
        conditions: Conjunction,
    ) -> pa.Table:
        """Some columns of some files of a dataset, of the rows that meet the conditions."""
        return read_rows(self._storage, labels, plan.loaded_schema(dataset), conditions)

    def _chosen(self, datasets: Sequence[str] | None) -> dict[str, CubeDataset]:
        if datasets is None:
            return self._planned
        return {name: self._planned[self.metadata.dataset(name).name] for name in datasets}

    @cached_property
    def _planned(self) -> dict[str, CubeDataset]:
        return {each.name: planned(self._storage, each) for each in self.metadata.datasets}

    def _outcome(self, plan: QueryPlan) -> Iterator[GroupRows]:
        def load(
            dataset: str, labels: Sequence[str], columns: Sequence[str], conditions: Conjunction
        ) -> pa.Table:
            return self.load(plan, dataset, labels, columns, conditions)

        def joined(read: PartitionRead) -> tuple[PartitionRead, pa.Table]:
            return read, read_partition(plan, read, load)

        yield from outcome(plan, _ahead(joined, plan.reads()))


def _ahead(
    work: Callable[[PartitionRead], tuple[PartitionRead, pa.Table]], reads: Iterable[PartitionRead]
) -> Iterator[tuple[PartitionRead, pa.Table]]:
    """Work through partitions in threads, a few ahead of whoever takes them, in order."""
    threads = os.cpu_count() or 1
    waiting: deque[Future[tuple[PartitionRead, pa.Table]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="cube") as pool:
        try:
            for read in reads:
                waiting.append(pool.submit(work, read))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()
