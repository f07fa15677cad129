"""`Cube`, which reads a cube as one large virtual table over all its datasets and partitions.

The functions that build and change cubes are in `hipslake.api.cube_changes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hipslake.cube.cell_joins import GroupRows, outcome, read_partition
from hipslake.cube.explanation import explain
from hipslake.cube.query_plan import PartitionRead, QueryPlan, partition_pruning
from hipslake.cube.store.cube_reader import CubeReader
from hipslake.cube.store.derived_tables import read_alignment, read_joined
from hipslake.cube.store.query_tasks import file_loader
from hipslake.engine.this_process import read_ahead
from hipslake.predicates.conditions import Conditions

if TYPE_CHECKING:
    import pandas as pd


class Cube(CubeReader):
    """One version of a cube, as one large virtual table.

    Examples
    --------
    >>> cube = Cube.open("warehouse/cubes/sky")  # doctest: +SKIP
    >>> good = (C("OK") == True) & C("HIP").isin([71683])  # doctest: +SKIP
    >>> cube.query(columns=["period"], conditions=good)  # doctest: +SKIP
    """

    @property
    def datasets(self) -> list[str]:
        """The names of the datasets, sorted."""
        return self.metadata.names

    @property
    def columns(self) -> list[str]:
        """The columns of the virtual table, sorted."""
        return sorted({column.name for each in self.metadata.datasets for column in each.columns})

    def __repr__(self) -> str:
        return f"Cube({self.storage.uri()!r}, version={self.version}, datasets={self.datasets})"

    def _repr_html_(self) -> str:
        from hipslake.api.catalog_views import cube_html

        return cube_html(self)

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

    def pruning(self, conditions: Conditions | str = None, columns: Iterable[str] | None = None) -> pa.Table:
        """Which partitions a query would read, and why it would drop others, as a column `fate`.

        No data file is opened.
        """
        return partition_pruning(self.plan(columns, conditions))

    fates = pruning  # the name that notebooks may know it by

    def alignment(self) -> pa.Table:
        """The alignment table of the version, as of `hipslake.cube.store.derived_tables.alignment_table`.

        Raises
        ------
        CubeError
            It has none, as no spec was followed when it was made.
        """
        return read_alignment(self.storage, self.metadata)

    def joined(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The joined rows that the version keeps, partition by partition; by default all columns.

        Raises
        ------
        CubeError
            It keeps none.
        VerificationError
            A file is missing or damaged.
        """
        return read_joined(self.storage, self.metadata, columns)

    def _outcome(self, plan: QueryPlan) -> Iterator[GroupRows]:
        load = file_loader(self.storage, plan)

        def joined(read: PartitionRead) -> tuple[PartitionRead, pa.Table]:
            return read, read_partition(plan, read, load)

        yield from outcome(plan, read_ahead(joined, plan.reads()))
