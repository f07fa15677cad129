"""The cross-match of two tables: the n nearest rows within a radius, or all, with separation and angle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.joins.error_regions import ErrorRule
from hipslake.joins.pair_grid import CHUNK_PAIRS, Grid, Pairs, SkyPositions
from hipslake.joins.pair_scores import PairScore
from hipslake.joins.sky_separations import ARCSEC, position_angle, separation_of
from hipslake.specs.join_specs import MatchOptions
from hipslake.sphere.array_columns import ArrayColumns
from hipslake.sphere.curve import curve_order

MAX_CANDIDATES = 1 << 23  # pairs that are looked at for the rows that are matched at once
_CANDIDATES_PER_ROW = 16  # past this many for each wanted neighbour, nearer ones are looked for first


@dataclass(frozen=True)
class Matches(ArrayColumns):
    """Rows of the left side with their matches, by left row and then by rank.

    Attributes
    ----------
    left, right : int64[m]
        Places of the rows.
    separation : float64[m]
        Arcseconds, along the great circle.
    position_angle : float64[m]
        Degrees in [0, 360), of the right position as seen from the left one, from north over east; 0 where
        both are the same.
    rank : int32[m]
        1 for the nearest row of the right side.
    nearness : float64[m]
        What nearer rows have less of: see `ErrorRule.judge`. Without errors, the square of the chord.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    separation: NDArray[np.float64]
    position_angle: NDArray[np.float64]
    rank: NDArray[np.int32]
    nearness: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.left)

    @classmethod
    def none(cls) -> Matches:
        """No match at all."""
        places, measures = np.empty(0, np.int64), np.empty(0)
        return cls(places, places, measures, measures, np.empty(0, np.int32), measures)


@dataclass(frozen=True)
class _Near(Pairs):
    """Pairs within the limits, and how near they are."""

    nearness: NDArray[np.float64]


def match(
    left: SkyPositions,
    right: SkyPositions,
    *,
    radius_arcsec: float,
    min_radius_arcsec: float = 0.0,
    neighbours: int | None = 1,
    errors: ErrorRule | None = None,
    score: PairScore | None = None,
) -> Iterator[tuple[slice, Matches]]:
    """Match two sides.

    Both limits count as within. Of right rows that are equally near, the earlier one is the nearer.

    Parameters
    ----------
    left, right : SkyPositions
        Fastest where ascending by `h29`.
    radius_arcsec, min_radius_arcsec : float
        Largest and smallest separation.
    neighbours : int or None
        How many of the nearest rows between the two limits; None: all of them.
    errors : ErrorRule, optional
        What the position errors of both rows have to allow besides; the nearest rows are the nearest by
        that. Rows whose error is not known match nothing.
    score : PairScore, optional
        Which of the right rows that are near enough is the nearest: that of the highest score.

    Yields
    ------
    slice, Matches
        Consecutive rows of the left side, all of them in turn, with their matches (numbered from the first
        row of all). A slice is as long as memory allows: one, unless rows have very many candidates.
    """
    limits = (min_radius_arcsec, radius_arcsec)
    waiting = [slice(0, len(left))]
    while waiting:
        rows = waiting.pop()
        part = left.take(rows)
        grids = _grids(part, right, radius_arcsec, errors)
        candidates = sum(each.grid.candidates for each in grids)
        plain = errors is None and score is None
        crowded = plain and neighbours is not None and candidates > _enough(len(part), neighbours)
        if not crowded and candidates > MAX_CANDIDATES and len(part) > 1:
            middle = (rows.start + rows.stop) // 2
            waiting += [slice(middle, rows.stop), slice(rows.start, middle)]
            continue
        if crowded and neighbours is not None:
            pairs = _nearest(part, right, limits, neighbours)
        else:
            pairs = Pairs.together([_between(each.pairs(), limits) for each in grids])
        near = _judged(part, right, pairs, errors)
        if score is not None:
            near = _scored(part, right, near, score, measured=errors is not None)
        yield rows, _described(part, right, *_ranked(near, neighbours), first=rows.start)


class MatchLimits(TypedDict):
    """What `match` is told of which rows may be a pair."""

    radius_arcsec: float
    min_radius_arcsec: float
    errors: ErrorRule | None
    score: PairScore | None


def match_limits(options: MatchOptions, radius_arcsec: float | None) -> MatchLimits:
    """What options say of which rows may be a pair.

    Parameters
    ----------
    options : MatchOptions
    radius_arcsec : float or None
        Where the errors of the rows say the radius: a bound on it.
    """
    radius, errors = options.radius_arcsec, None
    if options.radius is not None:
        errors = ErrorRule(options.radius.combine, options.radius.sigmas, options.radius.elliptical)
        radius = radius_arcsec
    assert radius is not None
    score = None
    if options.score is not None:
        score = PairScore(options.score.function, options.score.parameters, options.score.minimum)
    return MatchLimits(
        radius_arcsec=radius,
        min_radius_arcsec=options.min_radius_arcsec,
        errors=errors,
        score=score,
    )


class _SomeRows(NamedTuple):
    """A grid of some of the rows of both sides, by their places; None: all."""

    grid: Grid
    left: NDArray[np.int64] | None
    right: NDArray[np.int64] | None

    def pairs(self) -> Pairs:
        pairs = self.grid.pairs()
        if self.left is None or self.right is None:
            return pairs
        return Pairs(self.left[pairs.left], self.right[pairs.right], pairs.chord2)


def _grids(
    left: SkyPositions, right: SkyPositions, radius_arcsec: float, errors: ErrorRule | None
) -> list[_SomeRows]:
    """The grids that together hold all pairs.

    With errors, a few rows may reach much farther than the others. So where there are many candidates, rows
    of small errors and rows of large ones are looked for apart.
    """
    if errors is None:
        return [_SomeRows(Grid(left, right, _reach(radius_arcsec)), None, None)]
    here, there = (
        np.zeros(len(side)) if side.errors is None else side.errors.largest for side in (left, right)
    )
    waiting, found = [(np.flatnonzero(here >= 0.0), np.flatnonzero(there >= 0.0))], []
    while waiting:
        mine, others = waiting.pop()
        most = here[mine].max(initial=0.0), there[others].max(initial=0.0)
        reach = min(_reach(errors.reach(*most)), _reach(radius_arcsec))
        grid = Grid(left.take(mine), right.take(others), reach)
        if grid.candidates > _enough(len(mine) + len(others), 1):
            of_left = most[0] >= most[1]
            parts = _halves(here, mine) if of_left else _halves(there, others)
            if all(len(part) for part in parts):
                waiting += [(part, others) if of_left else (mine, part) for part in parts]
                continue
        found.append(_SomeRows(grid, mine, others))
    return found


def _halves(errors: NDArray[np.float64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """The rows of at most half the largest error, and the others."""
    small = errors[rows] <= errors[rows].max() / 2.0
    return rows[small], rows[~small]


def _judged(left: SkyPositions, right: SkyPositions, pairs: Pairs, errors: ErrorRule | None) -> _Near:
    """The pairs that errors allow, with what they make of their distance."""
    if errors is None:
        return _Near(pairs.left, pairs.right, pairs.chord2, pairs.chord2)
    found = []
    for first in range(0, len(pairs.left) or 1, CHUNK_PAIRS // 8):
        some = pairs.select(slice(first, first + CHUNK_PAIRS // 8))
        here, there = left.take(some.left), right.take(some.right)
        allowed, nearness = errors.judge(here, there, separation_of(some.chord2))
        found.append(_Near(some.left, some.right, some.chord2, nearness).select(allowed))
    return _Near.together(found)


def _scored(
    left: SkyPositions, right: SkyPositions, pairs: _Near, score: PairScore, *, measured: bool
) -> _Near:
    """The pairs that have a score; the nearest has the highest."""
    pairs = pairs.select(np.lexsort((pairs.right, pairs.nearness, pairs.left)))
    candidates = {"left_row": pa.array(pairs.left), "separation_arcsec": separation_of(pairs.chord2)}
    if measured:
        candidates["nearness"] = pairs.nearness
    for name, side, rows in (("left", left, pairs.left), ("right", right, pairs.right)):
        if side.values is not None:
            values = side.values.take(pa.array(rows))
            candidates |= {f"{name}.{column}": values[column] for column in values.column_names}
    scores = score.scores(pa.table(candidates))
    return replace(pairs, nearness=-scores).select(~np.isnan(scores))


def _enough(rows: int, neighbours: int) -> int:
    return _CANDIDATES_PER_ROW * neighbours * rows + 65_536


def _reach(radius_arcsec: float) -> float:
    """A radius in radians that nothing within the limit is beyond, however it was rounded."""
    return radius_arcsec * ARCSEC * (1.0 + 1e-12) + 1e-15


def _between(pairs: Pairs, limits: tuple[float, float]) -> Pairs:
    """The pairs whose separation, as it is reported, is within the limits."""
    separation = separation_of(pairs.chord2)
    return pairs.select((separation >= limits[0]) & (separation <= limits[1]))


def _nearest(left: SkyPositions, right: SkyPositions, limits: tuple[float, float], neighbours: int) -> Pairs:
    """Pairs that hold the nearest rows within the limits, without a look at everything in the radius.

    A row that has its neighbours within a smaller radius is done; the others are tried again with twice that.
    """
    rows = np.arange(len(left))
    reach = radius = _reach(limits[1])
    while Grid(left, right, reach).candidates > _enough(len(left), neighbours) and reach > radius * 2.0**-30:
        reach /= 2.0
    found: list[Pairs] = []
    while len(rows):
        part = left.take(rows)
        pairs = _between(Grid(part, right, reach).pairs(), limits)
        counts = np.bincount(pairs.left, minlength=len(rows))
        done = counts >= neighbours if reach < radius else np.ones(len(rows), bool)
        kept = pairs.select(done[pairs.left])
        found.append(Pairs(rows[kept.left], kept.right, kept.chord2))
        rows = rows[~done]
        reach = min(2.0 * reach, radius)
    return Pairs.together(found)


def _ranked(pairs: _Near, neighbours: int | None) -> tuple[_Near, NDArray[np.int32]]:
    """The pairs by left row and nearness, and the rank of each; no more than asked for."""
    pairs = pairs.select(curve_order(pairs.left))
    tied = pairs.left[1:] == pairs.left[:-1]
    if tied.any():  # few rows have more than one match: only those are sorted by distance
        several = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        some = pairs.select(several)
        nearness = np.lexsort((some.right, some.nearness, some.left))
        order = np.arange(len(pairs.left))
        order[several] = several[nearness]
        pairs = pairs.select(order)
    first = (
        np.flatnonzero(np.append(True, pairs.left[1:] != pairs.left[:-1])) if len(pairs.left) else pairs.left
    )
    counts = np.diff(np.append(first, len(pairs.left)))
    rank = (np.arange(len(pairs.left)) - np.repeat(first, counts) + 1).astype(np.int32)
    if neighbours is not None and len(counts) and counts.max() > neighbours:
        kept = np.flatnonzero(rank <= neighbours)
        return pairs.select(kept), rank[kept]
    return pairs, rank


def _described(
    left: SkyPositions, right: SkyPositions, pairs: _Near, rank: NDArray[np.int32], *, first: int
) -> Matches:
    here, there = left.take(pairs.left), right.take(pairs.right)
    separation = separation_of(pairs.chord2)
    angle = position_angle(here, there)
    return Matches(pairs.left + first, pairs.right, separation, angle, rank, pairs.nearness)
