"""The equi-join of two catalogs, leaf by leaf: where equal keys lie in leaves that overlap, nothing moves.

Where they may lie anywhere, the right rows can be gathered in memory; the left ones are read leaf by leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from hipslake.catalog.changed_objects import check_joinable
from hipslake.catalog.joining.gathered_rows import GatheredRows
from hipslake.catalog.joining.join import CatalogJoin, Keyed, KeyedJoin
from hipslake.catalog.joining.stretches import Stretches, StretchPlan, plan_stretches
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import CoPartitionError, SchemaMismatchError, SpecError
from hipslake.joins.key_joins import JoinKind, equijoin_columns, equijoined, suffixes_of
from hipslake.joins.match_columns import MatchColumns
from hipslake.joins.tree_alignment import overlaps
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class Equijoin(KeyedJoin):
    """Two catalogs that are joined where keys are equal. Small, so that it travels with tasks.

    Attributes
    ----------
    left, right : Keyed
    how : {"inner", "left", "anti"}
    suffixes : (str, str)
    gathered : GatheredRows or None
        All right rows, where equal keys may lie in any pixel; None: they lie in leaves that overlap.
    """

    left: Keyed
    right: Keyed
    how: JoinKind
    suffixes: tuple[str, str]
    gathered: GatheredRows | None = None

    @classmethod
    def of(
        cls,
        left: tuple[Storage, CatalogMetadata],
        right: tuple[Storage, CatalogMetadata],
        on: tuple[str, str],
        how: JoinKind = "inner",
        *,
        columns: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
        suffixes: Sequence[str] | None = None,
        shuffle: bool = False,
        gather: bool = False,
        filters: tuple[Any, Any] = (None, None),
    ) -> Equijoin:
        """Check that two catalogs can be joined.

        Parameters
        ----------
        left, right : (Storage, CatalogMetadata)
            The storage is at the catalog's root.
        on : (str, str)
            The key of each side.
        how : {"inner", "left", "anti"}
            Rows with a partner; all left rows, with nulls where there is none; left rows without one.
        columns : (sequence of str or None, sequence of str or None)
            What is kept of either side; None: all but `_healpix_29` and `_row`.
        suffixes : (str, str), optional
            Of columns that both sides have; by default "" and "_<right catalog>".
        shuffle : bool
            Whether rows may be brought together from anywhere, so that the marks do not matter.
        gather : bool
            Whether, where the marks do not say that equal keys lie in leaves that overlap, all right rows are
            held in memory.
        filters : (filter, filter)
            Of the left and of the right side, as `Catalog.read` takes them: rows that do not pass are not
            there for the join. None: all rows are.

        Raises
        ------
        SchemaMismatchError
            A column does not exist, or the keys are of two kinds.
        FilterError
            A filter is not understood.
        CoPartitionError
            It is not known that equal keys lie in leaves that overlap.
        SpecError
            Two columns of the outcome would have one name, there is no such kind of join, or the right rows
            are too many to be gathered.
        """
        if how not in ("inner", "left", "anti"):
            raise SpecError(f"how: {how!r} is no kind of join; take 'inner', 'left' or 'anti'")
        if how == "anti":
            columns = (columns[0], ())
        mine, theirs = (
            Keyed.of(*side, key, kept, passing)
            for side, key, kept, passing in zip((left, right), on, columns, filters, strict=True)
        )
        mine = mine._replace(kept=tuple(name for name in mine.kept if name != HEALPIX_COLUMN))  # always there
        if mine.kind != theirs.kind:
            raise SchemaMismatchError(
                f"{left[1].catalog}.{on[0]} is {mine.kind} and {right[1].catalog}.{on[1]} is {theirs.kind}; "
                "ingest one of them in the type of the other"
            )
        gathered = None
        if not shuffle:
            try:
                check_joinable(left, right, on)
            except CoPartitionError:
                if not gather:
                    raise
                gathered = GatheredRows(theirs)
                gathered.check()
        found = cls(mine, theirs, how, suffixes_of(suffixes, right[1].catalog), gathered)
        found.columns  # noqa: B018  two columns of one name
        return found

    @property
    def on(self) -> tuple[str, str]:
        """The key of each side."""
        return self.left.key, self.right.key

    @cached_property
    def columns(self) -> MatchColumns:
        """The columns of the outcome, without `_healpix_29`."""
        return equijoin_columns(
            self.left.schema, self.right.schema, self.how, on=self.on, suffixes=self.suffixes
        )

    @property
    def left_catalog(self) -> str:
        """Name of the left catalog."""
        return self.left.metadata.catalog

    @property
    def described(self) -> str:
        """The join in words, and what to look at where it finds nothing."""
        keys = " = ".join(self.on)
        filtered = self.left.filter is not None or self.right.filter is not None
        return f"{self.how}, {keys}, with {self.right.metadata.catalog}: do the keys mean the same?" + (
            " Do the filters leave anything?" if filtered else ""
        )

    @property
    def sees_all_rows(self) -> str | None:
        """Gathered rows may have partners anywhere."""
        return None if self.gathered is None else "with 'gather', equal keys may lie anywhere on the sky"

    def touched_by(self, changes: Sequence[Intervals], before: CatalogJoin) -> Intervals:
        """Where the outcome may differ: equal keys have one place, so where either side differs."""
        return Intervals.together(changes)

    def stretches(self, most_rows: int, only: Intervals | None = None) -> StretchPlan:
        """Where leaves of both sides meet; for a left or an anti-join also where the right side has no leaf.

        Of each side, a stretch has about `most_rows` rows at most, unless a single row group has more. Where
        the right rows are gathered, the stretches are those of the left side.
        """
        mine = plan_stretches(self.left.storage, self.left.metadata, most_rows, only=only)
        if self.gathered is not None:
            return mine
        return aligned(
            mine,
            plan_stretches(self.right.storage, self.right.metadata, most_rows, only=only),
            keep_left=self.how != "inner",
        )

    def table(self, start: int, stop: int) -> pa.Table:
        """The outcome for the left rows in [start, stop), order-29 pixels, in their order."""
        left, right = self.sides(start, stop)
        return equijoined(left, right, self.on, self.how, self.columns)

    def sides(self, start: int, stop: int) -> tuple[pa.Table, pa.Table]:
        """The rows of both sides in [start, stop) that pass their filters; of the right, if gathered, all."""
        left = self._left.read(start, stop)
        if self.gathered is not None and left.num_rows:
            return left, self.gathered.table()
        return left, self._right.read(start, stop) if left.num_rows else self._right.schema.empty_table()

    @cached_property
    def _left(self) -> Stretches:
        return self.left.stretches

    @cached_property
    def _right(self) -> Stretches:
        return self.right.stretches


def aligned(left: StretchPlan, right: StretchPlan, *, keep_left: bool) -> StretchPlan:
    """Where stretches of two catalogs meet, along the curve.

    Parameters
    ----------
    left, right : StretchPlan
    keep_left : bool
        Whether also what is left of the left stretches is wanted.

    Returns
    -------
    StretchPlan
        `rows` are those of the right side, and at least 1: what a piece costs, about.
    """
    here, there = overlaps((left.start, left.stop), (right.start, right.stop))
    start = np.maximum(left.start[here], right.start[there])
    stop = np.minimum(left.stop[here], right.stop[there])
    share = (stop - start) / np.maximum(right.stop[there] - right.start[there], 1)
    rows = np.maximum(right.rows[there] * share, 1).astype(np.int64)
    if keep_left:
        bounds = np.unique(np.concatenate([left.start, left.stop, start, stop]))
        first, last = bounds[:-1], bounds[1:]
        met_left = overlaps((first, last), (left.start, left.stop))[0]
        alone = np.setdiff1d(met_left, overlaps((first, last), (start, stop))[0])
        start = np.concatenate([start, first[alone]])
        stop = np.concatenate([stop, last[alone]])
        rows = np.concatenate([rows, np.ones(len(alone), np.int64)])
    along = np.argsort(start)
    return StretchPlan(start[along], stop[along], rows[along])
