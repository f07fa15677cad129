"""The interface of joins of two catalogs, for threads, the tasks of a step, and Spark.

`KeyedJoin` has what joins by keys have in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from hipslake.catalog.joining.open_borders import OpenBorders
from hipslake.catalog.joining.stretches import Stretches, StretchPlan
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.catalog.selection import joined_schema, select
from hipslake.joins.key_codes import key_kind
from hipslake.joins.match_columns import MatchColumns
from hipslake.predicates.predicate_tree import Predicate
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage

PIECE_ROWS = 500_000  # of either side that are joined at once, about
_BATCH_ROWS = 1 << 16


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
    def stretches(self, most_rows: int, only: Intervals | None = None) -> StretchPlan:
        """The stretches of the curve that are joined one by one.

        Parameters
        ----------
        most_rows : int
            Rows of a stretch, about; its `rows` say what it costs.
        only : Intervals, optional
            Stretches that hold nothing of these are left out.
        """

    @property
    def sees_all_rows(self) -> str | None:
        """Why what a place has in the outcome depends on rows anywhere; None: only on those near it."""
        return None

    @abstractmethod
    def touched_by(self, changes: Sequence[Intervals], before: CatalogJoin) -> Intervals:
        """Where the outcome may differ from that of the same join of other versions.

        Parameters
        ----------
        changes : sequence of Intervals
            Of each side, the left one first: where its rows may differ from those of the other version.
        before : CatalogJoin
            The join of the other versions.
        """

    @property
    def open_borders(self) -> OpenBorders | None:
        """Counts the left rows that may lack partners that there are; None: every pair is found."""
        return None

    @abstractmethod
    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The outcome for the left rows in [start, stop), order-29 pixels, as batches of bounded size."""

    def table(self, start: int, stop: int) -> pa.Table:
        """The outcome for the left rows in [start, stop), order-29 pixels."""
        return pa.Table.from_batches(self.batches(start, stop), self.schema)


class Keyed(NamedTuple):
    """A side of a join: a catalog, its key, the columns that are kept of it, and which rows take part."""

    storage: Storage
    metadata: CatalogMetadata
    key: str
    kept: tuple[str, ...]
    filter: Predicate | None = None  # rows that do not pass are not joined; None: all are
    also: tuple[str, ...] = ()  # read as well, but not kept

    @classmethod
    def of(
        cls,
        storage: Storage,
        metadata: CatalogMetadata,
        key: str,
        columns: Sequence[str] | None,
        filters: Any = None,
    ) -> Keyed:
        """A side whose columns are known to be there; `SchemaMismatchError` names those that are not."""
        chosen = select(metadata, [key], filters)
        if columns is None:
            whole = joined_schema(metadata).names
            columns = [name for name in whole if name not in ROW_IDENTITY]
        select(metadata, columns)
        return cls(storage, metadata, key, tuple(columns), chosen.filter)

    @property
    def kind(self) -> str:
        """The kind of the key; only keys of one kind can be equal."""
        field = joined_schema(self.metadata).field(self.key)
        return key_kind(field.type, f"{self.metadata.catalog}.{self.key}")

    @property
    def stretches(self) -> Stretches:
        """Reads the key, the columns that are kept and those that are needed besides, of rows that pass."""
        needed = [
            name for name in dict.fromkeys([self.key, *self.kept, *self.also]) if name != HEALPIX_COLUMN
        ]
        return Stretches(self.storage, self.metadata, needed, self.filter)

    @property
    def schema(self) -> pa.Schema:
        """The columns that are kept."""
        whole = joined_schema(self.metadata)
        return pa.schema([whole.field(name) for name in self.kept])


class KeyedJoin(CatalogJoin):
    """A join that holds all rows of a stretch, of both sides, in memory at once."""

    @property
    def task_rows(self) -> int:
        """Rows of either side that are joined at once, about."""
        return PIECE_ROWS

    @abstractmethod
    def table(self, start: int, stop: int) -> pa.Table:
        """The outcome for the left rows in [start, stop), order-29 pixels, in their order."""

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """As `table`, in batches of bounded size."""
        yield from self.table(start, stop).combine_chunks().to_batches(_BATCH_ROWS)
