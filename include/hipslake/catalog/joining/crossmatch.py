"""The cross-match of two catalogs, stretch of the curve by stretch.

For a left row in a pixel that the right side files rows under, every right row that can match it lies in that
pixel or in its margin. So a stretch is cut where those pixels begin and end, and each piece needs the left
rows in it, one right leaf, and the margin of that leaf; of these, only row groups that come near enough.
Where the right side has no leaf, its margin holds what lies near the border; where it has not even that,
no row matches. Without a margin, rows match inside each leaf alone: see `OpenBorders`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.join import CatalogJoin
from hipslake.catalog.joining.open_borders import OpenBorders, check_reach
from hipslake.catalog.joining.own_partners import OwnPartners
from hipslake.catalog.joining.right_rows import BesideMargin, NearRows, RightRows
from hipslake.catalog.joining.sides import Side, refuse_self_match
from hipslake.catalog.joining.stretches import StretchPlan, plan_stretches
from hipslake.catalog.joining.unmatched import UnmatchedRows, beside
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_IDENTITY
from hipslake.catalog.selection import RegionCut
from hipslake.errors import SpecError
from hipslake.joins.match_columns import MatchColumns, match_columns
from hipslake.joins.matching import match_limits, matched, merged
from hipslake.joins.pair_scores import scoring_function
from hipslake.joins.tree_alignment import near
from hipslake.specs.join_specs import (
    MAX_RADIUS_ARCSEC,
    MatchOptions,
    MissingMargin,
    MotionColumns,
    check_epoch,
    check_missing_margin,
)
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.regions import Region
from hipslake.storage.folder import Storage

_TASK_BYTES = 128 << 20
_LEAST_ROWS, _MOST_ROWS = 10_000, 1_000_000
_LEAST_RADIUS = 1e-9  # arcseconds, where no row has any error
_TEXT_BYTES = 32  # of a value whose type does not say
_ARCSEC = np.pi / 180 / 3600


@dataclass(frozen=True)
class Crossmatch(CatalogJoin):
    """Two catalogs and how their rows match.

    Attributes
    ----------
    left, right : Side
    options : MatchOptions
    radius_arcsec : float
        The largest separation that two rows may have at the epoch of the match.
    shift_arcsec : float
        A bound on how far the rows of both sides together move until the epoch of the match.
    cut : RegionCut or None
        Only left rows in this region are in the outcome, by their positions in the catalog, and of an outer
        match only right rows in it; None: all.
    beside : BesideMargin or None
        The margin of the right side that was made for this match; None: the catalog has one.
    without_margin : bool
        Whether only rows match that lie in the same right leaf, as there is no margin.
    """

    left: Side
    right: Side
    options: MatchOptions
    radius_arcsec: float
    shift_arcsec: float
    cut: RegionCut | None = None
    beside: BesideMargin | None = None
    without_margin: bool = False

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
        region: Region | None = None,
        filters: tuple[Any, Any] = (None, None),
        missing_margin: MissingMargin = "refuse",
        beside: BesideMargin | None = None,
    ) -> Crossmatch:
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
        region : Region, optional
            Where left rows are matched, and where an outer match has right rows; the whole sky if not given.
        filters : (filter, filter)
            Of the left and of the right side, as `Catalog.read` takes them: rows that do not pass are not
            there for the match. None: all rows are.
        missing_margin : {"build", "none", "refuse"}
            Where the right side has no sufficient margin: it is to be made before rows are matched, rows are
            matched without one, or that is an error.
        beside : BesideMargin, optional
            That margin, once it is made.

        Raises
        ------
        SchemaMismatchError
            A column does not exist; the message names the nearest ones.
        FilterError
            A filter is not understood.
        SpecError
            A catalog is matched with itself, a position has no epoch, the right side has no sufficient
            margin, a position error is none or so large that nothing bounds the match, or two columns of the
            outcome would have one name, or one that catalogs add themselves.
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
        cut = None if region is None else RegionCut(region, here.position)
        found = cls(here, there, options, radius_arcsec, shift_arcsec, cut, beside)
        _refuse_own_names(found.columns)
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

    @cached_property
    def columns(self) -> MatchColumns:
        """The columns of the outcome, without `_healpix_29`."""
        return match_columns(
            self.left.schema,
            self.right.schema,
            self.options,
            right_name=self.right.metadata.catalog,
            own=ROW_IDENTITY,
        )

    @property
    def task_rows(self) -> int:
        """How many left rows are matched at once: as many as fit into a bounded memory."""
        width = sum(_width(field.type) for side in (self.left, self.right) for field in side.stretches.schema)
        return int(min(max(_TASK_BYTES // max(width, 1), _LEAST_ROWS), _MOST_ROWS))

    @property
    def left_catalog(self) -> str:
        """Name of the left catalog."""
        return self.left.metadata.catalog

    @property
    def described(self) -> str:
        """The match in words, and what to look at where it finds nothing."""
        filtered = self.left.filter is not None or self.right.filter is not None
        doubt = (
            "has every row a partner?"
            if self.options.how == "anti"
            else "are both about the same part of the sky, and their positions in degrees?"
        )
        name = self.right.metadata.catalog
        doubt += " Do the filters leave anything?" if filtered else ""
        doubt += (
            " Partners in other leaves of it are not found without a margin." if self.without_margin else ""
        )
        return f"{self.options.how}, {self.options.within}, with {name}: {doubt}"

    def stretches(self, most_rows: int) -> StretchPlan:
        """The stretches that are matched one by one, of about so many left rows."""
        mine = plan_stretches(self.left.storage, self.left.metadata, most_rows, only=self.only)
        if self.options.how != "outer":
            return mine
        return beside(
            mine, plan_stretches(self.right.storage, self.right.metadata, most_rows, only=self.only)
        )

    @property
    def only(self) -> Intervals | None:
        """Where rows of the outcome may be; None: everywhere."""
        inside = None if self.cut is None else self.cut.cover.intervals
        if self.options.how == "inner":
            homes = self.right_rows.homes
            open_borders = self.open_borders
            met = Intervals.union(homes.start, homes.stop) if open_borders is None else open_borders.reached
            inside = met if inside is None else inside.common(met)
        return inside

    @cached_property
    def right_rows(self) -> RightRows:
        """Reads the right rows that come near enough."""
        beside = BesideMargin.empty(self.right.storage) if self.without_margin else self.beside
        return RightRows(self.right, self.reach_arcsec, beside)

    @cached_property
    def open_borders(self) -> OpenBorders | None:
        """Counts the left rows that may lack partners; None: there is a margin."""
        if not self.without_margin:
            return None
        return OpenBorders(self.left, self.right, self.reach_arcsec, self.options.one_to_one, self.cut)

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The outcome for the left rows in [start, stop), order-29 pixels.

        Ordered by `_healpix_29`, the order of the left side, and nearness. Of an outer match also for the
        right rows there, after the left ones of the same order-29 pixel.
        """
        pieces = self._pieces(start, stop)
        if not pieces:
            return
        rows, keeps = self._left_rows(start, stop, pieces)
        keys = rows[HEALPIX_COLUMN].to_numpy()
        for begin, end, home in pieces:
            first, last = np.searchsorted(keys, [begin, end]).tolist()
            found = self._matched(rows.slice(first, last - first), keeps[first:last], home)
            yield from found if self.options.how != "outer" else merged(found, self._alone(begin, end, home))

    def _matched(self, mine: pa.Table, keeps: NDArray[np.bool_], home: int) -> Iterator[pa.RecordBatch]:
        """The outcome for left rows that lie in a home."""
        if not mine.num_rows:
            return
        keys = mine[HEALPIX_COLUMN]
        near_by = self._near_rows(home, keys[0].as_py(), keys[-1].as_py() + 1)
        here, there = self.left.positions(mine), near_by.positions
        place = self.left.degrees(mine) if self.options.how == "outer" else None
        yield from matched(
            mine,
            here,
            near_by.take,
            there,
            self.options,
            self.columns,
            place,
            radius_arcsec=self.radius_arcsec,
            keeps=keeps,
        )

    def _alone(self, begin: int, end: int, home: int) -> pa.Table:
        """The right rows of an outer match in [begin, end), a part of a home."""
        schema = self.schema
        if home < 0 or self.right_rows.homes.leaf[home] < 0:
            return schema.empty_table()
        rows = self._unmatched.within(begin, end, self._only_in(home))
        assert self.options.placed_by is not None
        known = {self.columns.right[name]: rows[name] for name in self.right.columns}
        known |= dict(zip(self.options.placed_by, map(pa.array, self.right.degrees(rows)), strict=True))
        known[HEALPIX_COLUMN] = rows[HEALPIX_COLUMN]
        columns = [
            known[field.name] if field.name in known else pa.nulls(len(rows), field.type) for field in schema
        ]
        return pa.table(columns, schema=schema)

    @cached_property
    def _unmatched(self) -> UnmatchedRows:
        cut = None if self.cut is None else RegionCut(self.cut.region, self.right.position)
        return UnmatchedRows(self.left, self.right, self.options, self.radius_arcsec, self.reach_arcsec, cut)

    @cached_property
    def _own(self) -> OwnPartners:
        return OwnPartners(self.left, self.right, self.options, self.radius_arcsec, self.reach_arcsec)

    def _pieces(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """A stretch cut at the homes: begin, end, and the home, -1 where none is and rows are kept anyway."""
        pieces, at, homes = [], start, self.right_rows.homes
        for home in homes.overlapping(start, stop):
            begin, end = max(start, int(homes.start[home])), min(stop, int(homes.stop[home]))
            if begin > at:
                pieces.append((at, begin, -1))
            pieces.append((begin, end, home))
            at = end
        if at < stop:
            pieces.append((at, stop, -1))
        return [piece for piece in pieces if piece[2] >= 0 or self.options.how != "inner"]

    def _left_rows(
        self, start: int, stop: int, pieces: list[tuple[int, int, int]]
    ) -> tuple[pa.Table, NDArray[np.bool_]]:
        """The left rows in a stretch, and whether each may have its nearest right row."""
        rows = self.left.stretches.read(start, stop)
        if self.without_margin and self.options.one_to_one is not None:
            keys, keeps = rows[HEALPIX_COLUMN].to_numpy(), np.ones(rows.num_rows, bool)
            for begin, end, home in pieces:
                first, last = np.searchsorted(keys, [begin, end]).tolist()
                if home >= 0:
                    keeps[first:last] = self._own.within(begin, end, last - first, self._only_in(home))
        else:
            keeps = self._own.within(start, stop, rows.num_rows)
        if self.cut is not None:
            inside = self.cut.mask(rows)
            rows, keeps = rows.filter(pa.array(inside)), keeps[inside]
        return rows.combine_chunks(), keeps

    def _only_in(self, home: int) -> Intervals | None:
        """Where rows lie that may match those in a home, by their own leaves; None: anywhere."""
        if not self.without_margin:
            return None
        homes = self.right_rows.homes
        return Intervals.union(homes.start[[home]], homes.stop[[home]])

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


def _refuse_own_names(columns: MatchColumns) -> None:
    """The outcome has these itself: as a column of a side they have to have a suffix."""
    for name in columns.schema.names:
        if name.casefold() in ROW_IDENTITY:
            raise SpecError(
                f"column {name!r} of the match would have a name that catalogs add themselves; choose "
                "another for separation, position_angle or rank, or a suffix for the side that it is kept of"
            )


def _width(kind: pa.DataType) -> int:
    """Bytes of a value, about."""
    return max(1, kind.bit_width // 8) if pa.types.is_primitive(kind) else _TEXT_BYTES
