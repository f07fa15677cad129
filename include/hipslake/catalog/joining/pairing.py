"""The left side of a cross-match with one of its right sides: which right rows each left row has as partners.

For a left row in a pixel that the right side files rows under, every right row that can match it lies in that
pixel or in its margin. So a stretch is cut where those pixels begin and end, and each piece needs the left
rows in it, one right leaf, and the margin of that leaf; of these, only row groups that come near enough.
Where the right side has no leaf, its margin holds what lies near the border; where it has not even that,
no row matches. Without a margin, rows match inside each leaf alone: see `RightBorders`. Where a side is
small, there are no pieces and no margin: see `hipslake.catalog.joining.small_sides`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.held_rows import HeldRows, HeldRowsFile
from hipslake.catalog.joining.open_borders import RightBorders, check_reach
from hipslake.catalog.joining.own_partners import MOST_REACHES, OwnPartners
from hipslake.catalog.joining.right_rows import BesideMargin, NearRows, RightRows
from hipslake.catalog.joining.sides import Side, refuse_self_match
from hipslake.catalog.joining.small_sides import FetchedRight, HeldRight, points_widened, small_side
from hipslake.catalog.joining.unmatched import UnmatchedRows
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.selection import RegionCut
from hipslake.errors import SpecError
from hipslake.joins.match_columns import RightColumns
from hipslake.joins.matching import Matches, match, match_limits
from hipslake.joins.pair_scores import scoring_function
from hipslake.joins.partner_rows import Partners
from hipslake.joins.tree_alignment import near
from hipslake.specs.join_specs import MAX_RADIUS_ARCSEC, MatchOptions, MissingMargin, MotionColumns, SmallSide
from hipslake.specs.match_checks import check_epoch, check_missing_margin
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import widened
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage

_LEAST_RADIUS = 1e-9  # arcseconds, where no row has any error
_ARCSEC = np.pi / 180 / 3600
_SLACK_ARCSEC = 1e-5  # more than separations are wrong by


@dataclass(frozen=True)
class Pairing:
    """Two catalogs and how their rows match.

    Attributes
    ----------
    left, right : Side
    options : MatchOptions
    radius_arcsec : float
        The largest separation that two rows may have at the epoch of the match.
    shift_arcsec : float
        A bound on how far the rows of both sides together move until the epoch of the match.
    beside : BesideMargin or None
        The margin of the right side that was made for this match; None: the catalog has one.
    without_margin : bool
        Whether only rows match that lie in the same right leaf, as there is no margin.
    small : {"left", "right"} or None
        The side that is small: tasks hold all of its rows, and there is no margin.
    held_at : HeldRowsFile or None
        Where a run has left the rows of a small right side; None: they are read from the catalog.
    """

    left: Side
    right: Side
    options: MatchOptions
    radius_arcsec: float
    shift_arcsec: float
    beside: BesideMargin | None = None
    without_margin: bool = False
    small: SmallSide | None = None
    held_at: HeldRowsFile | None = None

    @classmethod
    def of(
        cls,
        left: tuple[Storage, CatalogMetadata],
        right: tuple[Storage, CatalogMetadata],
        options: MatchOptions,
        *,
        columns: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
        motions: tuple[MotionColumns | None, MotionColumns | None] = (None, None),
        shift_arcsec: float | None = None,
        radius_arcsec: float | None = None,
        filters: tuple[Any, Any] = (None, None),
        missing_margin: MissingMargin = "refuse",
        beside: BesideMargin | None = None,
        small: SmallSide | Literal["chosen"] | None = "chosen",
    ) -> Pairing:
        """Check that two catalogs can be matched.

        Parameters
        ----------
        left, right : (Storage, CatalogMetadata)
            The storage is at the catalog's root.
        options : MatchOptions
        columns : (sequence of str or None, sequence of str or None)
            What the outcome keeps of the left and of the right side; None: all. The position of the left side
            is always kept.
        motions : (MotionColumns or None, MotionColumns or None)
        shift_arcsec : float, optional
            As an earlier call has found it, from the same versions.
        radius_arcsec : float, optional
            The same, where the errors of the rows say the radius.
        filters : (filter, filter)
            Of the left and of the right side, as `Catalog.read` takes them: rows that do not pass are not
            there for the match. None: all rows are.
        missing_margin : {"build", "none", "refuse"}
            Where the right side has no sufficient margin: it is to be made before rows are matched, rows are
            matched without one, or that is an error.
        beside : BesideMargin, optional
            That margin, once it is made.
        small : {"chosen", "left", "right"} or None
            Which side is small, as an earlier call has found it: such a match needs no margin. By default it
            is chosen.

        Raises
        ------
        SchemaMismatchError
            A column does not exist; the message names the nearest ones.
        FilterError
            A filter is not understood.
        SpecError
            A catalog is matched with itself, a position has no epoch, the right side has no sufficient
            margin, or a position error is none or so large that nothing bounds the match.
        """
        try:
            check_epoch(options.epoch, motions)
            check_missing_margin(missing_margin, options.how)
        except ValueError as error:
            raise SpecError(str(error)) from None
        both = (left, right)
        scored: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        if options.score is not None:
            scoring_function(options.score.function)
            scored = (options.score.left, options.score.right)
        errors = (None, None) if options.radius is None else (options.radius.left, options.radius.right)
        here, there = (
            Side.of(
                *both[at],
                columns[at],
                motions[at],
                options.epoch,
                keeps_position=at == 0,
                filters=filters[at],
                errors=errors[at],
                scored=scored[at],
            )
            for at in (0, 1)
        )
        refuse_self_match(here, there, options)
        if shift_arcsec is None:
            shift_arcsec = here.largest_shift() + there.largest_shift()
        if radius_arcsec is None:
            radius_arcsec = options.radius_arcsec or _largest_radius(here, there, options)
        found = cls(here, there, options, radius_arcsec, shift_arcsec, beside)
        if small == "chosen":
            small = small_side(here, there, found.reach_arcsec)
        if small is not None:
            return replace(found, small=small)
        if beside is None and missing_margin == "none" and not there.has_margin(found.reach_arcsec):
            check_reach(found.reach_arcsec)
            return replace(found, without_margin=True)
        if beside is None and missing_margin != "build":
            found.right_rows.check()
        return found

    @property
    def reach_arcsec(self) -> float:
        """How far apart rows that match may stand in their catalogs."""
        return self.radius_arcsec + self.shift_arcsec

    @property
    def columns(self) -> RightColumns:
        """What the outcome is told of the right side."""
        return RightColumns(self.right.metadata.catalog, self.right.schema, self.options)

    @cached_property
    def right_rows(self) -> RightRows:
        """Reads the right rows that come near enough."""
        beside = BesideMargin.empty(self.right.storage) if self.without_margin else self.beside
        return RightRows(self.right, self.reach_arcsec, beside)

    @cached_property
    def held_right(self) -> HeldRight:
        """The rows of a small right side."""
        return HeldRight(self.right, HeldRows(self.right.stretches, self.held_at), self.reach_arcsec)

    @cached_property
    def _around(self) -> HeldRight | FetchedRight:
        """Gives right rows around left ones, where a side is small."""
        return self.held_right if self.small == "right" else FetchedRight(self.right, self.reach_arcsec)

    def meets(self, start: int, stop: int) -> bool:
        """Whether left rows in [start, stop), order-29 pixels, may have partners."""
        if self.small is not None:
            return bool(len(self.met.within(start, stop)))
        return bool(self.right_rows.homes.overlapping(start, stop))

    @cached_property
    def borders(self) -> RightBorders | None:
        """Tells which left rows may lack partners; None: there is a margin."""
        if not self.without_margin:
            return None
        scored = self.options.score is not None
        return RightBorders(self.left, self.right, self.reach_arcsec, self.options.one_to_one, scored)

    @property
    def met(self) -> Intervals:
        """Where left rows may have partners, or lack them: order-29 pixels."""
        if self.small == "right":
            return self.held_right.reached
        if self.small == "left":
            return Intervals.whole_sky()
        if self.borders is not None:
            return self.borders.reached
        homes = self.right_rows.homes
        return Intervals.union(homes.start, homes.stop)

    def touched_by(self, left: Intervals, right: Intervals, other_reach: float) -> Intervals:
        """Where rows may have other partners than with other versions of both sides.

        Parameters
        ----------
        left, right : Intervals
            Where rows of each side differ between the versions.
        other_reach : float
            As `reach_arcsec`, with the other versions.
        """
        reach = max(self.reach_arcsec, other_reach) + _SLACK_ARCSEC
        if self.options.one_to_one is None and self.options.how != "outer":
            return Intervals.together([left, widened(right, reach)])
        # Whose nearest a row is depends on rows around that one: see `OwnPartners` and `UnmatchedRows`.
        return widened(Intervals.together([left, right]), MOST_REACHES * reach)

    def partners(
        self,
        rows: pa.Table,
        stretch: tuple[int, int],
        every: NDArray[np.int64],
        inside: NDArray[np.bool_],
    ) -> Iterator[Partners]:
        """The right rows that the left rows in a stretch match: of consecutive rows, of all in turn.

        Parameters
        ----------
        rows : pyarrow.Table
            The left rows in the stretch that are matched, along the curve, with all that `Side.needed` names.
        stretch : (int, int)
            Order-29 pixels, [start, stop).
        every : int64[n]
            `_healpix_29` of all left rows in the stretch.
        inside : bool[n]
            Which of them are matched.
        """
        keeps = self._keeps(stretch, every)[inside]
        for mine, first, near_by in self.with_near_rows(rows, stretch):
            yield from self._matched(mine, first, keeps, near_by)

    def for_counting(self) -> Pairing:
        """The same match, which keeps no columns."""
        place = self.left.position
        left = replace(self.left, columns=(place.ra, place.dec))
        return replace(self, left=left, right=replace(self.right, columns=()))

    def with_near_rows(
        self, rows: pa.Table, stretch: tuple[int, int]
    ) -> Iterator[tuple[pa.Table, int, NearRows]]:
        """Left rows as for `partners`, piece by piece, the place of the first, and the right rows near."""
        keys = rows[HEALPIX_COLUMN].to_numpy()
        if self.small is not None:
            if len(keys):
                yield rows, 0, self._around.near(keys)
            return
        for begin, end, home in self._pieces(*stretch):
            first, last = np.searchsorted(keys, [begin, end]).tolist()
            if last > first:
                near_by = self._near_rows(home, int(keys[first]), int(keys[last - 1]) + 1)
                yield rows.slice(first, last - first), first, near_by

    def _matched(
        self, mine: pa.Table, first: int, keeps: NDArray[np.bool_], near_by: NearRows
    ) -> Iterator[Partners]:
        """The partners of left rows, of which the first is at a place, among the right rows near them."""
        if not near_by.rows.num_rows:
            yield Partners(slice(first, first + mine.num_rows), Matches.none(), near_by.take)
            return
        found = match(
            self.left.positions(mine),
            near_by.positions,
            **match_limits(self.options, self.radius_arcsec),
            neighbours=1 if self.options.how == "anti" else self.options.most,
        )
        for rows, matches in found:
            placed = replace(matches, left=matches.left + first)
            if self.options.one_to_one is not None:
                placed = placed.select(keeps[placed.left])
            yield Partners(slice(rows.start + first, rows.stop + first), placed, near_by.take)

    def alone(self, start: int, stop: int, cut: RegionCut | None) -> pa.Table:
        """The right rows in [start, stop), order-29 pixels, that no left row matches.

        Along the curve, with all columns that `Side.needed` names.

        Parameters
        ----------
        start, stop : int
        cut : RegionCut or None
            Only right rows in it, by the position columns of the right side; None: all.
        """
        reach = (self.radius_arcsec, self.reach_arcsec)
        rows = UnmatchedRows(self.left, self.right, self.options, *reach, cut)
        if self.small == "right":
            return rows.within(start, stop, self.held_right.reached)
        if not self.without_margin:
            return rows.within(start, stop)
        tables = [
            rows.within(begin, end, self._only_in(home))
            for begin, end, home in self._pieces(start, stop)
            if home >= 0
        ]
        return pa.concat_tables([self.right.stretches.schema.empty_table(), *tables])

    def _keeps(self, stretch: tuple[int, int], keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which left rows in a stretch may have their nearest right row, by all `_healpix_29` there."""
        if self.options.one_to_one is None:
            return np.ones(len(keys), bool)
        if self.small is not None:
            if self.small == "right":
                return self._own.among(keys, stretch, self.held_right.reached)
            return self._own.among(keys, stretch, points_widened(keys, MOST_REACHES * self.reach_arcsec))
        if not self.without_margin:
            return self._own.among(keys, stretch)
        keeps = np.ones(len(keys), bool)
        for begin, end, home in self._pieces(*stretch):
            first, last = np.searchsorted(keys, [begin, end]).tolist()
            if home >= 0:
                keeps[first:last] = self._own.among(keys[first:last], (begin, end), self._only_in(home))
        return keeps

    def _only_in(self, home: int) -> Intervals:
        """Where rows lie that may match those in a home, by their own leaves, without a margin."""
        homes = self.right_rows.homes
        return Intervals.union(homes.start[[home]], homes.stop[[home]])

    @cached_property
    def _own(self) -> OwnPartners:
        return OwnPartners(self.left, self.right, self.options, self.radius_arcsec, self.reach_arcsec)

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """A stretch cut at the homes: begin, end, and the home, -1 where none is."""
        at, homes = start, self.right_rows.homes
        for home in homes.overlapping(start, stop):
            begin, end = max(start, int(homes.start[home])), min(stop, int(homes.stop[home]))
            if begin > at:
                yield at, begin, -1
            yield begin, end, home
            at = end
        if at < stop:
            yield at, stop, -1

    def _near_rows(self, home: int, begin: int, end: int) -> NearRows:
        """The right rows that may match left ones in [begin, end), a part of a home."""
        homes, wanted = self.right_rows.homes, None
        # Of a large part of a home, most comes near anyway.
        if home >= 0 and 2 * (end - begin) < int(homes.stop[home]) - int(homes.start[home]):
            reach = self.reach_arcsec * _ARCSEC

            def wanted(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.bool_]:
                return near(first, last, (begin, end), reach)

        return self.right_rows.near(home, wanted)


def _largest_radius(left: Side, right: Side, options: MatchOptions) -> float:
    """The largest separation that the errors of two rows may allow, arcseconds."""
    rule = match_limits(options, 0.0)["errors"]
    assert rule is not None
    largest = left.largest_error(), right.largest_error()
    radius = rule.reach(*largest)
    if radius > MAX_RADIUS_ARCSEC:
        raise SpecError(
            f"radius: position errors of up to {largest[0]:g} arcsec in {left.metadata.catalog} and "
            f"{largest[1]:g} in {right.metadata.catalog} let rows match that are {radius:g} arcsec apart; "
            f"{MAX_RADIUS_ARCSEC:g} are the most: leave rows of large errors out with filters and state the "
            "'maximum' of the others, or take fewer sigmas"
        )
    return max(radius, _LEAST_RADIUS)
