"""Matches within position errors equal what plain algebra says pair by pair, wherever on the sky."""

from __future__ import annotations

from dataclasses import replace

import healpy
import numpy as np
import pytest
from hipslake.joins import matching
from hipslake.joins.best_pairs import OneToOne, best_pairs
from hipslake.joins.error_regions import ErrorRegions, ErrorRule
from hipslake.joins.matching import MatchLimits, match
from hipslake.joins.pair_grid import SkyPositions
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.joins.error_skies import sides_with_errors, some_errors
from tests.joins.errors_by_hand import EDGE, judged
from tests.joins.skies import ascending, placed, two_sides

COMBINE = st.sampled_from(["quadrature", "sum"])
Found = dict[tuple[int, int], tuple[float, int]]


def limits_of(left: SkyPositions, right: SkyPositions, rule: ErrorRule) -> MatchLimits:
    largest = [
        float(np.nanmax(side.errors.largest, initial=0.0)) if side.errors is not None else 0.0
        for side in (left, right)
    ]
    return MatchLimits(
        radius_arcsec=max(rule.reach(*largest), 1e-9), min_radius_arcsec=0.0, errors=rule, score=None
    )


def found_pairs(
    left: SkyPositions, right: SkyPositions, limits: MatchLimits, neighbours: int | None = None
) -> Found:
    """Nearness and rank of every pair."""
    found: Found = {}
    for _, part in match(left, right, **limits, neighbours=neighbours):
        columns = (part.left, part.right, part.nearness, part.rank)
        for i, j, nearness, rank in zip(*(column.tolist() for column in columns), strict=True):
            found[i, j] = (nearness, rank)
    return found


@given(sides_with_errors(), COMBINE, st.sampled_from([0.5, 1.0, 3.0]))
@settings(max_examples=examples(60), deadline=None)
def test_pairs_equal_those_by_hand(
    sides: tuple[SkyPositions, SkyPositions, bool], combine: str, sigmas: float
) -> None:
    left, right, elliptical = sides
    rule = ErrorRule(combine, sigmas, elliptical)  # type: ignore[arg-type]
    found = found_pairs(left, right, limits_of(left, right, rule))
    told = judged(left, right, combine, sigmas, elliptical)
    # Astropy's directions are off by the more, the nearer two positions are; an edge is tried at points.
    doubt = 2e-3 if elliptical else 1e-5
    assert left.errors is not None
    assert right.errors is not None
    known = np.isfinite(left.errors.largest)[:, None] & np.isfinite(right.errors.largest)[None, :]
    clear = told.separation > 1e-6
    slack = doubt * told.limit
    pairs = set(found)
    sure = known & clear & (told.nearness < told.limit - slack)
    possible = known & ~(clear & ~(told.nearness <= told.limit + slack))
    assert {(int(i), int(j)) for i, j in np.argwhere(sure)} <= pairs
    assert pairs <= {(int(i), int(j)) for i, j in np.argwhere(possible)}
    for (i, j), (nearness, _) in found.items():
        if sure[i, j]:
            at = told.nearness[i, j]
            if elliptical and combine == "sum" and 0.99 < at < 1.51:
                continue  # where the centre reaches the edge, the measure jumps
            assert nearness == pytest.approx(at, rel=20 / EDGE if elliptical else 1e-5, abs=1e-6)


@given(sides_with_errors(), COMBINE)
@settings(max_examples=examples(60), deadline=None)
def test_the_sides_may_change_places(sides: tuple[SkyPositions, SkyPositions, bool], combine: str) -> None:
    left, right, elliptical = sides
    rule = ErrorRule(combine, 1.5, elliptical)  # type: ignore[arg-type]
    limits = limits_of(left, right, rule)
    forth, back = found_pairs(left, right, limits), found_pairs(right, left, limits)
    assert {pair: nearness for pair, (nearness, _) in forth.items()} == {
        (i, j): nearness for (j, i), (nearness, _) in back.items()
    }


@given(sides_with_errors(60), COMBINE, st.integers(1, 3), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_the_nearest_are_the_first_of_all_and_work_in_parts_changes_nothing(
    sides: tuple[SkyPositions, SkyPositions, bool], combine: str, neighbours: int, parts: bool
) -> None:
    left, right, elliptical = sides
    rule = ErrorRule(combine, 2.0, elliptical)  # type: ignore[arg-type]
    limits = limits_of(left, right, rule)
    every = found_pairs(left, right, limits)
    with pytest.MonkeyPatch.context() as patch:
        if parts:  # rows of small errors apart from those of large ones, few left rows at once
            patch.setattr(matching, "_enough", lambda rows, neighbours: 3)
            patch.setattr(matching, "MAX_CANDIDATES", 20)
            patch.setattr(matching, "CHUNK_PAIRS", 40)
        nearest = found_pairs(left, right, limits, neighbours)
    assert nearest == {pair: told for pair, told in every.items() if told[1] <= neighbours}
    assert all(rank >= 1 for _, rank in every.values())


def turned(side: SkyPositions, rotation: np.ndarray) -> SkyPositions:
    """Rows on a sphere that was turned, and their ellipses with them."""
    assert side.errors is not None
    here = side.directions.T
    east = np.stack([-np.sin(np.radians(side.ra)), np.cos(np.radians(side.ra)), np.zeros(len(side))], axis=1)
    north = np.cross(here, east)
    angle = np.radians(side.errors.angle)[:, None]
    along = (np.cos(angle) * north + np.sin(angle) * east) @ rotation.T
    there = here @ rotation.T
    ra, dec = healpy.vec2ang(there, lonlat=True)
    moved = placed(ra, dec)
    east = np.stack([-np.sin(np.radians(ra)), np.cos(np.radians(ra)), np.zeros(len(side))], axis=1)
    north = np.cross(there, east)
    turn = np.degrees(np.arctan2((along * east).sum(axis=1), (along * north).sum(axis=1)))
    errors = ErrorRegions(side.errors.semi_major, side.errors.semi_minor, turn)
    return replace(moved, errors=errors)


@pytest.mark.parametrize("combine", ["quadrature", "sum"])
@pytest.mark.parametrize("to", [(0.0, 90.0), (77.0, -90.0), (0.0, 0.0), (200.0, 89.99), (45.0, 41.8)])
def test_pairs_are_the_same_wherever_the_sphere_is_turned_to(combine: str, to: tuple[float, float]) -> None:
    """At a pole every ellipse has a north of its own: nothing but the pairs may be left of that."""
    rng = np.random.default_rng(4)
    rows, size = 400, 30.0

    def side() -> SkyPositions:
        place = placed(0.05 * rng.normal(size=rows), 0.05 * rng.normal(size=rows))
        errors = some_errors(rng, rows, size, elliptical=True)
        return replace(place, errors=replace(errors, angle=np.nan_to_num(errors.angle)))

    left, right = side(), side()
    rule = ErrorRule(combine, 1.0, True)  # type: ignore[arg-type]
    before = found_pairs(left, right, limits_of(left, right, rule))
    x, y = (np.radians(angle) for angle in to)
    rotation = np.array([[np.cos(x), -np.sin(x), 0], [np.sin(x), np.cos(x), 0], [0, 0, 1]]) @ np.array(
        [[np.cos(y), 0, -np.sin(y)], [0, 1, 0], [np.sin(y), 0, np.cos(y)]]
    )
    here, there = turned(left, rotation), turned(right, rotation)
    after = found_pairs(here, there, limits_of(left, right, rule))
    assert len(before) > 300
    for pair in set(before) ^ set(after):  # on the very edge
        nearness = (before.get(pair) or after.get(pair) or (0.0, 0))[0]
        assert nearness == pytest.approx(1.0 if combine == "quadrature" else 2.0, abs=1e-5)
    assert len(set(before) ^ set(after)) < 4
    for pair in set(before) & set(after):
        assert before[pair][0] == pytest.approx(after[pair][0], rel=1e-6)


@pytest.mark.parametrize("elliptical", [False, True])
@pytest.mark.parametrize("combine", ["quadrature", "sum"])
def test_rows_without_errors_match_where_they_are_the_same(combine: str, elliptical: bool) -> None:
    place = placed(np.array([10.0, 10.0, 20.0]), np.array([0.0, 1e-7, 5.0]))
    left = replace(place, errors=ErrorRegions.none(3))
    rule = ErrorRule(combine, 3.0, elliptical)  # type: ignore[arg-type]
    limits = MatchLimits(radius_arcsec=60.0, min_radius_arcsec=0.0, errors=rule, score=None)
    assert set(found_pairs(left, place, limits)) == {(0, 0), (1, 1), (2, 2)}
    known = replace(place, errors=ErrorRegions(np.array([1.0, np.nan, 1.0]), np.ones(3), np.zeros(3)))
    if not elliptical:
        assert known.errors is not None
        known = replace(known, errors=replace(known.errors, semi_minor=known.errors.semi_major))
    pairs = set(found_pairs(left, known, limits))
    assert pairs == {(0, 0), (1, 0), (2, 2)}  # a row whose error is not known matches nothing
    assert set(found_pairs(known, left, limits)) == {(j, i) for i, j in pairs}


def test_a_few_large_errors_do_not_make_every_row_look_far() -> None:
    """Four rows reach a degree, all others an arcsecond: all pairs within a degree would be 400 million."""
    rng = np.random.default_rng(3)

    def side(large: int) -> SkyPositions:
        place = placed(10 + 0.3 * rng.uniform(size=20_000), 20 + 0.3 * rng.uniform(size=20_000))
        size = np.ones(20_000)
        size[rng.integers(0, 20_000, large)] = 1700.0
        return ascending(replace(place, errors=ErrorRegions(size, size, np.zeros(20_000))))

    left, right = side(2), side(2)
    rule = ErrorRule("sum", 1.0, False)
    grids = matching._grids(left, right, 3400.0, rule)
    assert sum(each.grid.candidates for each in grids) < 1_000_000
    found = found_pairs(left, right, limits_of(left, right, rule), 1)
    assert len(found) > 19_000  # every right row is near one of the large ones, or the other way round


@given(two_sides(), st.sampled_from(["best", "mutual"]))
@settings(max_examples=examples(150))
def test_pairs_one_to_one_equal_those_by_hand(
    sides: tuple[SkyPositions, SkyPositions, float], which: OneToOne
) -> None:
    left, right, radius = sides
    limits = MatchLimits(radius_arcsec=radius, min_radius_arcsec=0.0, errors=None, score=None)
    every = {pair: nearness for pair, (nearness, _) in found_pairs(left, right, limits).items()}

    def favourite(own: int, of: int) -> tuple[int, int] | None:
        """The nearest pair of a row; of equally near ones the earlier."""
        pairs = [pair for pair in every if pair[own] == of]
        return min(pairs, key=lambda pair: (every[pair], pair[1 - own]), default=None)

    wanted = {favourite(0, row) for row in range(len(left))} - {None}
    if which == "mutual":
        expected = wanted & {favourite(1, row) for row in range(len(right))}
    else:
        expected = {
            min((pair for pair in wanted if pair and pair[1] == row), key=lambda pair: (every[pair], pair[0]))
            for row in {pair[1] for pair in wanted if pair}
        }
    mine, theirs = best_pairs(left, right, which, limits)
    found = list(zip(mine.tolist(), theirs.tolist(), strict=True))
    assert len(set(found)) == len(found) == len(set(mine.tolist()))
    assert set(found) == expected
