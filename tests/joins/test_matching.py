"""Matching equals brute force wherever on the sky; ties, limits and numbers are as they are promised."""

from __future__ import annotations

import astropy.units as u
import numpy as np
import pytest
from astropy.coordinates import SkyCoord
from hipslake.joins import matching, pair_grid
from hipslake.joins.matching import Matches, match
from hipslake.joins.pair_grid import Grid, SkyPositions
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.joins.skies import PLACES, ascending, chords, placed, two_sides

ARCSEC = np.pi / 180 / 3600
SLACK = 1e-9  # arcseconds by which rounding may move a separation


def all_matches(
    left: SkyPositions, right: SkyPositions, **options: object
) -> list[tuple[int, int, int, float]]:
    """Left, right, rank and separation of every pair; the slices have to cover the left side in turn."""
    found, at = [], 0
    for rows, part in match(left, right, **options):  # type: ignore[arg-type]
        assert rows.start == at
        at = rows.stop
        columns = (part.left, part.right, part.rank, part.separation)
        found += list(zip(*(column.tolist() for column in columns), strict=True))
    assert at == len(left)
    return found


def separations(left: SkyPositions, right: SkyPositions) -> np.ndarray:
    return 2 * np.arcsin(np.minimum(chords(left, right) / 2, 1)) / ARCSEC


@given(two_sides(), st.sampled_from([0.0, 0.2, 0.9]))
@settings(max_examples=examples(300))
def test_all_pairs_within_the_limits_equal_brute_force(
    sides: tuple[SkyPositions, SkyPositions, float], share: float
) -> None:
    left, right, radius = sides
    least = share * radius
    found = all_matches(left, right, radius_arcsec=radius, min_radius_arcsec=least, neighbours=None)
    pairs = {(here, there) for here, there, _, _ in found}
    assert len(pairs) == len(found)
    told = separations(left, right)
    sure = (told < radius - SLACK) & ((told > least + SLACK) | (least == 0.0))
    possible = (told <= radius + SLACK) & (told >= least - SLACK)
    assert {(int(i), int(j)) for i, j in np.argwhere(sure)} <= pairs
    assert pairs <= {(int(i), int(j)) for i, j in np.argwhere(possible)}
    for here, there, _, separation in found:
        assert separation == pytest.approx(told[here, there], abs=SLACK)


@given(two_sides(), st.integers(1, 4), st.sampled_from([0.0, 0.4]), st.booleans())
@settings(max_examples=examples(300))
def test_the_nearest_are_the_first_of_all_pairs(
    sides: tuple[SkyPositions, SkyPositions, float], neighbours: int, share: float, crowded: bool
) -> None:
    left, right, radius = sides
    limits = {"radius_arcsec": radius, "min_radius_arcsec": share * radius}
    every = all_matches(left, right, **limits, neighbours=None)
    with pytest.MonkeyPatch.context() as patch:
        if crowded:  # as if there were so many candidates that nearer ones are looked for first
            patch.setattr(matching, "_enough", lambda rows, neighbours: rows // 8)
        nearest = all_matches(left, right, **limits, neighbours=neighbours)
    assert nearest == [pair for pair in every if pair[2] <= neighbours]


@given(two_sides())
@settings(max_examples=examples(100))
def test_what_is_looked_at_at_once_changes_nothing(sides: tuple[SkyPositions, SkyPositions, float]) -> None:
    left, right, radius = sides
    whole = all_matches(left, right, radius_arcsec=radius, neighbours=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "MAX_CANDIDATES", 7)
        patch.setattr(pair_grid, "CHUNK_PAIRS", 3)
        assert all_matches(left, right, radius_arcsec=radius, neighbours=None) == whole


@given(two_sides())
@settings(max_examples=examples(100))
def test_the_order_of_the_keys_is_no_matter(sides: tuple[SkyPositions, SkyPositions, float]) -> None:
    """Rows that have moved are not along the curve any more."""
    left, right, radius = sides
    rng = np.random.default_rng(0)
    here, there = rng.permutation(len(left)), rng.permutation(len(right))
    found = all_matches(left.take(here), right.take(there), radius_arcsec=radius, neighbours=None)
    pairs = {(int(here[i]), int(there[j])) for i, j, _, _ in found}
    whole = all_matches(left, right, radius_arcsec=radius, neighbours=None)
    assert pairs == {(i, j) for i, j, _, _ in whole}


def test_of_equally_near_rows_the_earlier_one_is_the_nearer() -> None:
    left = placed(np.array([10.0]), np.array([0.0]))
    right = placed(np.full(5, 10.0), np.full(5, 0.0))
    found = all_matches(left, right, radius_arcsec=1.0, neighbours=3)
    assert [(there, rank) for _, there, rank, _ in found] == [(0, 1), (1, 2), (2, 3)]


def test_both_limits_count_as_within() -> None:
    left, right = placed(np.array([0.0]), np.array([0.0])), placed(np.array([0.0]), np.array([0.5]))
    ((_, _, _, exact),) = all_matches(left, right, radius_arcsec=1800.0000001, neighbours=None)
    assert len(all_matches(left, right, radius_arcsec=exact, neighbours=None)) == 1
    assert len(all_matches(left, right, radius_arcsec=exact, min_radius_arcsec=exact, neighbours=1)) == 1
    assert all_matches(left, right, radius_arcsec=exact - 1e-7, neighbours=None) == []
    far = all_matches(left, right, radius_arcsec=3600.0, min_radius_arcsec=exact + 1e-7, neighbours=1)
    assert far == []


@pytest.mark.parametrize("neighbours", [1, None])
def test_an_empty_side_matches_nothing(neighbours: int | None) -> None:
    none, one = placed(np.empty(0), np.empty(0)), placed(np.array([1.0]), np.array([2.0]))
    for left, right in ((none, one), (one, none), (none, none)):
        assert all_matches(left, right, radius_arcsec=10.0, neighbours=neighbours) == []


@pytest.mark.parametrize("place", PLACES[:9])
@pytest.mark.parametrize("arcsec", [1e-3, 1.0, 1000.0])
def test_separation_and_angle_are_astropys(place: tuple[float, float], arcsec: float) -> None:
    rng = np.random.default_rng(1)
    ra, dec = (np.full(200, axis) for axis in place)
    width = arcsec / 3600
    here = ascending(placed(ra + width * rng.normal(size=200), dec + width * rng.normal(size=200)))
    there = ascending(placed(ra + width * rng.normal(size=200), dec + width * rng.normal(size=200)))
    ((_, found),) = match(here, there, radius_arcsec=2 * arcsec, neighbours=None)
    a = SkyCoord(here.ra[found.left] * u.deg, here.dec[found.left] * u.deg)
    b = SkyCoord(there.ra[found.right] * u.deg, there.dec[found.right] * u.deg)
    assert len(found)
    np.testing.assert_allclose(found.separation, a.separation(b).arcsec, rtol=0, atol=SLACK)
    across = np.abs((found.position_angle - a.position_angle(b).deg + 180) % 360 - 180)
    # What rounds astropy's angle is large where the pair is close: 1e-16 of the sphere, seen from so near.
    assert np.all(across * ARCSEC * 3600 * found.separation < 1e-6)
    assert np.all((found.position_angle >= 0) & (found.position_angle < 360))


def test_the_angle_is_that_of_a_milliarcsecond() -> None:
    here = placed(np.array([83.0]), np.array([-40.0]))
    mas = 1e-3 / 3600
    there = placed(83.0 + np.array([0.0, mas, 0.0, -mas]), -40.0 + np.array([mas, 0.0, -mas, 0.0]))
    ((_, found),) = match(here, there, radius_arcsec=0.01, neighbours=None)
    angles = dict(zip(found.right.tolist(), found.position_angle.tolist(), strict=True))
    assert [angles[at] for at in range(4)] == pytest.approx([0.0, 90.0, 180.0, 270.0], abs=1e-4)


def test_a_crowd_is_not_looked_at_whole() -> None:
    """The nearest of 20,000 rows in one place for each of them: all pairs would be 400 million."""
    rng = np.random.default_rng(2)
    left = ascending(placed(10 + 0.2 * rng.uniform(size=20_000), 20 + 0.2 * rng.uniform(size=20_000)))
    right = ascending(placed(10 + 0.2 * rng.uniform(size=20_000), 20 + 0.2 * rng.uniform(size=20_000)))
    assert Grid(left, right, 3600 * ARCSEC).candidates > 300_000_000
    found = all_matches(left, right, radius_arcsec=3600.0, neighbours=1)
    nearest = {here: there for here, there, _, _ in found}
    some = rng.integers(0, 20_000, 200)
    expected = chords(left.take(some), right).argmin(axis=1)
    assert [nearest[int(at)] for at in some] == expected.tolist()


@pytest.mark.parametrize("radius", [0.0, -1.0, 0.05])
def test_a_radius_that_no_grid_has_is_refused(radius: float) -> None:
    one = placed(np.array([1.0]), np.array([2.0]))
    with pytest.raises(ValueError, match="radius"):
        Grid(one, one, radius)


def test_matches_know_how_many_they_are() -> None:
    one = np.zeros(1)
    assert len(Matches(np.arange(1), np.arange(1), one, one, np.ones(1, np.int32), one)) == 1
