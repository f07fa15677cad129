"""The cross-match of a catalog with one or more others, stretch of the curve by stretch.

Each catalog on the right is matched with the same left rows, apart from the others; then each left row is put
beside its partners in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.held_rows import HeldRows, HeldRowsFile
from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.joining.match_counts import MatchCounts, all_pairs_count, count_pairs
from hipslake.catalog.joining.open_borders import OpenBorders
from hipslake.catalog.joining.pairing import Pairing
from hipslake.catalog.joining.sides import Side
from hipslake.catalog.joining.small_sides import points_widened
from hipslake.catalog.joining.stretches import Stretches, StretchPlan, plan_stretches, row_width
from hipslake.catalog.joining.unmatched import beside
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.catalog.selection import RegionCut
from hipslake.errors import SpecError
from hipslake.joins.match_columns import MatchColumns, match_columns
from hipslake.joins.partner_rows import Partners, counted_rows, merged, partner_rows
from hipslake.specs.join_specs import MatchOptions
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.regions import Region

_TASK_BYTES = 128 << 20
_LEAST_ROWS, _MOST_ROWS = 10_000, 1_000_000
_PLAN_CELLS = 9  # the order of cells that say which leaves are near; finer ones than 7 arcmin take longer


@dataclass(frozen=True)
class Crossmatch(CatalogJoin):
    """A catalog, and how its rows match those of others.

    Attributes
    ----------
    pairings : tuple of Pairing
        The left side with each right one. Only a match of two catalogs may be an outer one.
    cut : RegionCut or None
        Only left rows in this region are in the outcome, by their positions in the catalog, and of an outer
        match only right rows in it; None: all.
    held_at : HeldRowsFile or None
        Where a run has left the rows of a small left side; None: they are read from the catalog.
    """

    pairings: tuple[Pairing, ...]
    cut: RegionCut | None = None
    held_at: HeldRowsFile | None = None

    @classmethod
    def of(
        cls,
        pairings: Sequence[Pairing],
        region: Region | None = None,
        *,
        held_at: HeldRowsFile | None = None,
    ) -> Crossmatch:
        """Check that the outcome can have the columns of all sides.

        Parameters
        ----------
        pairings : sequence of Pairing
            Of the same left catalog, with the same filter and columns of it.
        region : Region, optional
            Where left rows are matched, and where an outer match has right rows; the whole sky if not given.
        held_at : HeldRowsFile, optional
            Where a run has left the rows of a small left side.

        Raises
        ------
        SpecError
            Two columns of the outcome would have one name, or one that catalogs add themselves.
        """
        cut = None if region is None else RegionCut(region, pairings[0].left.position)
        found = cls(tuple(pairings), cut, held_at)
        _refuse_own_names(found.columns)
        return found

    @property
    def left(self) -> Side:
        """The left side, as the first right one is matched with it."""
        return self.pairings[0].left

    @cached_property
    def columns(self) -> MatchColumns:
        """The columns of the outcome, without `_healpix_29`."""
        rights = [pairing.columns for pairing in self.pairings]
        return match_columns(self.left.schema, rights, own=ROW_IDENTITY)

    @property
    def task_rows(self) -> int:
        """How many left rows are matched at once: as many as fit into a bounded memory."""
        read = [self._left_stretches, *(pairing.right.stretches for pairing in self.pairings)]
        width = sum(row_width(side.schema) for side in read)
        return int(min(max(_TASK_BYTES // max(width, 1), _LEAST_ROWS), _MOST_ROWS))

    @property
    def left_catalog(self) -> str:
        """Name of the left catalog."""
        return self.left.metadata.catalog

    @property
    def described(self) -> str:
        """The match in words, and what to look at where it finds nothing."""
        told = [
            f"{each.options.how}, {each.options.within}, with {each.right.metadata.catalog}"
            for each in self.pairings
        ]
        kinds = {each.options.how for each in self.pairings}
        doubts = ["has every row a partner?"] if "anti" in kinds else []
        if kinds != {"anti"}:
            all_of_them = "both" if len(self.pairings) == 1 else "all"
            doubts.append(
                f"are {all_of_them} about the same part of the sky, and their positions in degrees?"
            )
        if self.left.filter is not None or any(each.right.filter is not None for each in self.pairings):
            doubts.append("Do the filters leave anything?")
        if self.open_borders is not None:
            doubts.append("Partners in other leaves of it are not found without a margin.")
        return f"{'; '.join(told)}: {' '.join(doubts)}"

    def stretches(self, most_rows: int, only: Intervals | None = None) -> StretchPlan:
        """The stretches that are matched one by one, of about so many left rows."""
        inside = self.only if only is None or self.only is None else self.only.common(only)
        inside = only if inside is None else inside
        if self.holds_left:
            return self._around_held(most_rows, inside)
        mine = plan_stretches(self.left.storage, self.left.metadata, most_rows, only=inside)
        if self._outer is None:
            return mine
        other = self._outer.right
        return beside(mine, plan_stretches(other.storage, other.metadata, most_rows, only=inside))

    def _around_held(self, most_rows: int, inside: Intervals | None) -> StretchPlan:
        """The stretches that hold left rows, which are held, cut as the right rows around them ask for."""
        plan = plan_stretches(self.left.storage, self.left.metadata, most_rows, only=inside)
        for pairing in self.pairings:
            if pairing.small == "left":
                right, only = pairing.right, inside
                if self._outer is None:  # of which only what lies around the held rows is read
                    around = points_widened(self._held_left.keys, pairing.reach_arcsec, finest=_PLAN_CELLS)
                    only = around if inside is None else inside.common(around)
                plan = beside(plan, plan_stretches(right.storage, right.metadata, most_rows, only=only))
        if self._outer is not None:
            return plan
        met = self._held_left.meet(plan.start, plan.stop)
        return StretchPlan(plan.start[met], plan.stop[met], plan.rows[met])

    @property
    def holds_left(self) -> bool:
        """Whether the left side is small, and a right one is not: its rows are held."""
        return any(pairing.small == "left" for pairing in self.pairings)

    @property
    def held(self) -> list[HeldRows]:
        """The rows of all small sides, which are held."""
        rights = [pairing.held_right.held for pairing in self.pairings if pairing.small == "right"]
        return [*rights, *([self._held_left] if self.holds_left else [])]

    @property
    def sees_all_rows(self) -> str | None:
        """Without a margin, all rows near borders of right leaves are counted."""
        if self.open_borders is None:
            return None
        return "rows that lie near borders of leaves without a margin are counted all over the sky"

    def touched_by(self, changes: Sequence[Intervals], before: CatalogJoin) -> Intervals:
        """Where the outcome may differ; parameters as of `CatalogJoin.touched_by`."""
        assert isinstance(before, Crossmatch)
        left, *rights = changes
        pairs = zip(self.pairings, before.pairings, rights, strict=True)
        return Intervals.together(
            now.touched_by(left, right, then.reach_arcsec) for now, then, right in pairs
        )

    @property
    def only(self) -> Intervals | None:
        """Where rows of the outcome may be; None: everywhere."""
        inside = None if self.cut is None else self.cut.cover.intervals
        for pairing in self.pairings:
            if pairing.options.how == "inner":
                inside = pairing.met if inside is None else inside.common(pairing.met)
        return inside

    @cached_property
    def open_borders(self) -> OpenBorders | None:
        """Counts the left rows that may lack partners; None: all right sides have margins."""
        borders = [each.borders for each in self.pairings if each.borders is not None]
        return OpenBorders(tuple(borders), self.cut) if borders else None

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The outcome for the left rows in [start, stop), order-29 pixels.

        Ordered by `_healpix_29`, the order of the left side, and nearness in each right side. Of an outer
        match also for the right rows there, after the left ones of the same order-29 pixel.
        """
        if not self._may_have_rows(start, stop):
            return
        rows, partners = self._matched(start, stop)
        outer = self._outer
        degrees = None if outer is None else outer.left.degrees(rows)
        found = partner_rows(rows, partners, self._options, self.columns, degrees)
        yield from found if outer is None else merged(found, self._alone(outer, start, stop))

    def count(self, start: int, stop: int, edges: NDArray[np.float64] | None = None) -> MatchCounts:
        """How many rows `batches` has; of rows with a separation, how many lie in each bin.

        Parameters
        ----------
        start, stop : int
            Order-29 pixels, [start, stop).
        edges : float64[bins + 1], optional
            Of bins of the separations from the first right side, in arcseconds.
        """
        if not self._may_have_rows(start, stop):
            return MatchCounts(0, None if edges is None else np.zeros(len(edges) - 1, np.int64))
        first = self.pairings[0]
        if len(self.pairings) == 1 and all_pairs_count(first):
            rows = self._left_rows(start, stop)
            rows = rows if self.cut is None else self.cut.inside(rows)
            return count_pairs(first, rows.combine_chunks(), (start, stop), edges)
        _, partners = self._matched(start, stop)
        number, histogram = counted_rows(partners, self._options, edges)
        if self._outer is not None:
            number += self._alone_rows(self._outer, start, stop).num_rows
        return MatchCounts(number, histogram)

    def for_counting(self) -> Crossmatch:
        """The same match of as few columns as say which rows it has."""
        return replace(self, pairings=tuple(pairing.for_counting() for pairing in self.pairings))

    def _may_have_rows(self, start: int, stop: int) -> bool:
        """Whether a stretch may have any part in the outcome."""
        return all(pairing.options.how != "inner" or pairing.meets(start, stop) for pairing in self.pairings)

    def _matched(self, start: int, stop: int) -> tuple[pa.Table, list[Iterator[Partners]]]:
        """The left rows in a stretch, and what each right side has for them."""
        rows = self._left_rows(start, stop)
        every = rows[HEALPIX_COLUMN].to_numpy()
        inside = np.ones(rows.num_rows, bool) if self.cut is None else self.cut.mask(rows)
        rows = rows.filter(pa.array(inside)).combine_chunks()
        return rows, [pairing.partners(rows, (start, stop), every, inside) for pairing in self.pairings]

    def _alone(self, pairing: Pairing, start: int, stop: int) -> pa.Table:
        """The right rows of an outer match in [start, stop) that no left row matches."""
        side, placed_by = pairing.right, pairing.options.placed_by
        assert placed_by is not None
        rows, schema = self._alone_rows(pairing, start, stop), self.schema
        known = {self.columns.right[name]: rows[name] for name in side.columns}
        known |= dict(zip(placed_by, map(pa.array, side.degrees(rows)), strict=True))
        known[HEALPIX_COLUMN] = rows[HEALPIX_COLUMN]
        columns = [
            known[field.name] if field.name in known else pa.nulls(len(rows), field.type) for field in schema
        ]
        return pa.table(columns, schema=schema)

    def _alone_rows(self, pairing: Pairing, start: int, stop: int) -> pa.Table:
        """The right rows of `_alone`, as their side has them."""
        cut = None if self.cut is None else RegionCut(self.cut.region, pairing.right.position)
        return pairing.alone(start, stop, cut)

    @property
    def _options(self) -> list[MatchOptions]:
        return [pairing.options for pairing in self.pairings]

    @property
    def _outer(self) -> Pairing | None:
        """The only pairing, where the match is an outer one."""
        return self.pairings[0] if self.pairings[0].options.how == "outer" else None

    def _left_rows(self, start: int, stop: int) -> pa.Table:
        """The left rows in [start, stop) that may be in the outcome."""
        if self.holds_left:
            return self._held_left.within(start, stop)
        if self._near_small is None:
            return self._left_stretches.read(start, stop)
        return self._left_stretches.near(self._near_small.within(start, stop))

    @cached_property
    def _near_small(self) -> Intervals | None:
        """Where left rows have to lie to have partners in small right sides, if they are to have any."""
        reached = [
            pairing.met
            for pairing in self.pairings
            if pairing.small == "right" and pairing.options.how == "inner"
        ]
        return reduce(Intervals.common, reached) if reached else None

    @cached_property
    def _held_left(self) -> HeldRows:
        return HeldRows(self._left_stretches, self.held_at)

    @cached_property
    def _left_stretches(self) -> Stretches:
        """Reads what any of the pairings needs of the left side."""
        needed = dict.fromkeys(name for pairing in self.pairings for name in pairing.left.needed)
        return Stretches(self.left.storage, self.left.metadata, list(needed), self.left.filter)


def _refuse_own_names(columns: MatchColumns) -> None:
    """The outcome has these itself: as a column of a side they have to have a suffix."""
    for name in columns.schema.names:
        if name.casefold() in ROW_IDENTITY:
            raise SpecError(
                f"column {name!r} of the match would have a name that catalogs add themselves; choose "
                "another for separation, position_angle or rank, or a suffix for the side that it is kept of"
            )
