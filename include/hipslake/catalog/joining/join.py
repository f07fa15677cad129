"""What a join of two catalogs offers to those who carry it out: threads, the tasks of a step, or Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from hipslake.catalog.joining.stretch_plan import StretchPlan
from hipslake.joins.match_columns import MatchColumns


class CatalogJoin(ABC):
    """Two catalogs and how their rows are joined, one stretch of the curve at a time.

    The outcome lies where the left rows lie, so that a stretch of the curve gives a stretch of the outcome.
    Whoever carries a join out relies on this, and need not know its kind:

    - It is small and travels with tasks; a task reads itself what it joins.
    - The columns, the versions and the filters were checked when it was made. What can still fail is reading.
    - `stretches` are disjoint, ascend along the curve, and together hold every left row that may have a part
      in the outcome.
    - `batches` and `table` give the rows of a stretch ordered by `_healpix_29`. The same stretch always gives
      the same rows, and stretches one after another the same as all of them at once.
    - That no row is in the outcome is no error; `described` says what to look at then.
    """

    @property
    @abstractmethod
    def columns(self) -> MatchColumns:
        """The columns of the outcome, without `_healpix_29`."""

    @property
    def schema(self) -> pa.Schema:
        """The outcome, `_healpix_29` first."""
        return self.columns.outcome

    @property
    @abstractmethod
    def left_catalog(self) -> str:
        """Name of the catalog whose rows say where the outcome lies."""

    @property
    @abstractmethod
    def described(self) -> str:
        """The join in words, and what to look at where it finds nothing."""

    @property
    @abstractmethod
    def task_rows(self) -> int:
        """How many rows are joined at once, about: as many as fit into a bounded memory."""

    @abstractmethod
    def stretches(self, most_rows: int) -> StretchPlan:
        """The stretches of the curve that are joined one by one.

        Parameters
        ----------
        most_rows : int
            Rows of a stretch, about; its `rows` say what it costs.
        """

    @abstractmethod
    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The outcome for the left rows in [start, stop), order-29 pixels, as batches of bounded size."""

    def table(self, start: int, stop: int) -> pa.Table:
        """The outcome for the left rows in [start, stop), order-29 pixels."""
        return pa.Table.from_batches(self.batches(start, stop), self.schema)
