"""Pairs that are counted are those that are listed, and those of scipy's k-d tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hipslake.joins import pair_counts as module
from hipslake.joins import zones
from hipslake.joins.matching import match
from hipslake.joins.pair_counts import pair_counts
from hipslake.joins.pair_grid import SkyPositions, chord_of
from hipslake.joins.sky_separations import ARCSEC
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from tests.examples import examples
from tests.joins.skies import PLACES, placed, two_sides


def listed(left: SkyPositions, right: SkyPositions, **limits: Any) -> np.ndarray:
    """The separations of all pairs, as a match has them."""
    found = [matches.separation for _, matches in match(left, right, **limits, neighbours=None)]
    return np.concatenate([np.empty(0), *found])


WAYS = ["few", "listed", "binned"]


def counted(
    way: str, left: SkyPositions, right: SkyPositions, share: float = 0.25, **asked: Any
) -> tuple[int, np.ndarray | None]:
    """What is counted in zones of a share of the radius: where there are edges, pair by pair or by each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LOOK_NS", np.inf if way == "binned" else 0.0)
        patch.setattr(module, "_FEW_PAIRS", np.inf if way == "few" else -1.0)
        patch.setattr(module, "_MOST_CANDIDATES", np.inf)
        patch.setattr(module, "_THICKEST", share)
        patch.setattr(module, "_THINNEST", share)
        patch.setattr(zones, "_FEW", -1.0)
        found = pair_counts(left, right, **asked)
    return found.pairs, found.histogram


@pytest.mark.parametrize("way", WAYS)
@given(
    sides=two_sides(),
    least=st.sampled_from([0.0, 0.3, 1.0]),
    edges=st.sampled_from(
        [None, [0.0, 1.0], [-1.0, 0.0], [-1.0, 0.0, 0.2, 0.5, 2.0], [0.4, 0.6], [2.0, 3.0]]
    ),
    share=st.sampled_from([0.05, 0.3, 1.0, 4.0]),
)
@settings(max_examples=examples(200))
def test_counts_are_those_of_the_match(
    way: str,
    sides: tuple[SkyPositions, SkyPositions, float],
    least: float,
    edges: list[float] | None,
    share: float,
) -> None:
    left, right, radius = sides
    limits = {"radius_arcsec": radius, "min_radius_arcsec": least * radius}
    bins = None if edges is None else np.array(edges) * radius
    separations = listed(left, right, **limits)
    pairs, histogram = counted(way, left, right, share, **limits, edges=bins)
    assert pairs == len(separations)
    if bins is not None:
        assert histogram is not None
        assert histogram.dtype == np.int64
        assert histogram.tolist() == np.histogram(separations, bins)[0].tolist()


def count_looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs are looked at, each time."""
    looked_at: list[int] = []
    plain = module._Near.looked_at

    def seen(*given: Any) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        for chord2, rows in plain(*given):
            looked_at.append(len(chord2))
            yield chord2, rows

    monkeypatch.setattr(module._Near, "looked_at", seen)
    return looked_at


def crowd(place: tuple[float, float], width: float, rows: int, seed: int) -> SkyPositions:
    """Rows in a square around a place, in any order; width in degrees."""
    rng = np.random.default_rng(seed)
    up, across = rng.uniform(-width / 2, width / 2, (2, rows))
    return placed(place[0] + across / max(np.cos(np.radians(place[1])), 0.01), place[1] + up)


def round_crowd(place: tuple[float, float], width: float, rows: int, seed: int) -> SkyPositions:
    """Rows around a place, a pole too, that thin out from there; width in degrees."""
    ra, dec = place
    rng = np.random.default_rng(seed)
    across, up = rng.normal(scale=width, size=(2, rows))
    if abs(dec) < 90.0:
        return placed(ra + across / np.cos(np.radians(dec)), dec + up)
    return placed(np.degrees(np.arctan2(across, up)), np.copysign(90.0 - np.hypot(across, up), dec))


def within_of_trees(left: SkyPositions, right: SkyPositions, arcsec: np.ndarray) -> np.ndarray:
    """How many pairs lie within each separation, by scipy's k-d trees."""
    trees = [cKDTree(side.directions.T) for side in (left, right)]
    chords = 2.0 * np.sin(np.radians(arcsec / 3600.0) / 2.0)
    counts: np.ndarray = trees[0].count_neighbors(trees[1], chords)
    return counts


@pytest.mark.parametrize("place", PLACES[:7])
def test_counts_of_a_crowd_are_those_of_a_k_d_tree(place: tuple[float, float]) -> None:
    left, right = crowd(place, 0.5, 6000, 1), crowd(place, 0.5, 4000, 2)
    edges = np.array([0.0, 3.0, 20.0, 21.0, 150.0])
    within = within_of_trees(left, right, edges)
    assert within[-1] > 70 * len(left)
    for way in WAYS:
        pairs, histogram = counted(way, left, right, radius_arcsec=150.0, edges=edges)
        assert histogram is not None
        assert (pairs, histogram.tolist()) == (within[-1], np.diff(within).tolist())


def test_pairs_at_the_very_limits_count() -> None:
    """Rows on a lattice, so that thousands of pairs are exactly as far apart as the limits and edges say."""
    ra, dec = (axis.ravel() / 3600 for axis in np.meshgrid(np.arange(40.0), np.arange(40.0)))
    side = placed(ra, dec)
    separations = listed(side, side, radius_arcsec=12.0)
    limits = np.unique(separations)
    assert len(limits) > 60
    for radius in limits[[0, 7, 30, -1]].tolist():
        wanted = separations[separations <= radius]
        for way, most in (("few", 20_000), ("listed", 20_000), ("binned", 200)):
            some = limits[limits < radius]
            some = some[:: max(5, len(some) // most)]
            edges = np.append(some, radius) if radius else np.array([0.0, 1.0])
            pairs, histogram = counted(way, side, side, radius_arcsec=max(radius, 1e-9), edges=edges)
            assert histogram is not None
            assert pairs == len(wanted) > 1000
            assert histogram.tolist() == np.histogram(wanted, edges)[0].tolist()


@pytest.mark.parametrize("way", ["listed", "binned"])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("times", [(1, 30), (30, 1), (20, 20)])
def test_rows_of_one_place_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, times: tuple[int, int], shuffled: bool, way: str
) -> None:
    """Such as those of light curves."""
    rng = np.random.default_rng(9)
    looked_at = count_looked_at(monkeypatch)
    for radius, place in ((1.0, (10.0, 20.0)), (1e-6, (0.0, 90.0)), (300.0, (0.0, -20.0))):
        places = [round_crowd(place, radius / 3600, 40, seed) for seed in (1, 1)]
        sides = []
        for side, most in zip(places, times, strict=True):
            rows = np.repeat(np.arange(40), rng.integers(1, most + 1, 40))
            sides.append(side.take(rng.permutation(rows) if shuffled else rows))
        left, right = sides
        limits: dict[str, Any] = {"radius_arcsec": radius, "min_radius_arcsec": 0.1 * radius}
        separations = listed(left, right, **limits)
        edges = np.append(np.unique(separations)[::200], 1.1 * radius)
        looked_at.clear()
        pairs, histogram = counted(way, left, right, **limits, edges=edges)
        assert histogram is not None
        assert pairs == len(separations) > 1000
        assert histogram.tolist() == np.histogram(separations, edges)[0].tolist()
        assert 0 < max(looked_at) <= 40 * 40 < pairs


@pytest.mark.parametrize("last", [[151.0], [648_000.0], [1e6, 1_296_000.0, 2e6], [1e300]])
def test_bins_may_reach_beyond_any_separation(last: list[float]) -> None:
    """A chord grows with its angle up to half a turn alone: edges beyond must not say what is in a bin."""
    left, right = crowd((10.0, 20.0), 0.5, 3000, 7), crowd((10.0, 20.0), 0.5, 3000, 8)
    edges = np.array([0.0, 50.0, 100.0, *last])
    listed_separations = listed(left, right, radius_arcsec=150.0)
    for way in WAYS:
        pairs, histogram = counted(way, left, right, radius_arcsec=150.0, edges=edges)
        assert histogram is not None
        assert pairs == len(listed_separations) > 10_000
        assert histogram.tolist() == np.histogram(listed_separations, edges)[0].tolist()


@pytest.mark.parametrize("edges", [None, np.array([0.0, 100.0, 150.0])])
@pytest.mark.parametrize("place", [(10.0, 20.0), (0.0, 20.0), (0.0, 90.0), (0.0, -90.0)])
def test_of_a_crowd_few_pairs_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, place: tuple[float, float], edges: np.ndarray | None
) -> None:
    looked_at = count_looked_at(monkeypatch)
    left, right = round_crowd(place, 0.04, 5000, 3), round_crowd(place, 0.04, 5000, 4)
    found = pair_counts(left, right, radius_arcsec=150.0, edges=edges)
    assert found.pairs > 2_000_000
    assert 0 < sum(looked_at) < found.pairs // (4 if edges is None else 2)


@pytest.mark.parametrize("edges", [None, np.array([0.0, 10.0, 20.0])])
@pytest.mark.parametrize("rows", [1, 300, 20_000])
def test_where_pairs_are_few_no_side_is_put_into_zones(
    monkeypatch: pytest.MonkeyPatch, rows: int, edges: np.ndarray | None
) -> None:
    laid: list[float] = []
    plain = module._Counting._laid

    def seen(counting: Any, radius: float) -> Any:
        laid.append(radius)
        return plain(counting, radius)

    monkeypatch.setattr(module._Counting, "_laid", seen)
    left, right = crowd((10.0, 20.0), 1.0, rows, 13), crowd((10.0, 20.0), 1.0, 20_000, 14)
    for radius, few in ((10.0, True), (400.0, rows == 1)):
        laid.clear()
        pairs, _ = pair_counts(left, right, radius_arcsec=radius, edges=edges)
        assert pairs == within_of_trees(left, right, np.array([radius]))[0]
        assert bool(laid) != few


@pytest.mark.parametrize("rows", [1, 30, 3000])
@pytest.mark.parametrize("radius", [1e-6, 0.1, 30.0, 3600.0])
def test_zones_hold_all_rows_within_and_sure_ones_are(rows: int, radius: float) -> None:
    """Against all pairs, at the poles, across the beginning of right ascensions, and in crowds."""
    for place in PLACES[:7]:
        left, right = crowd(place, 4e-4 * radius, rows, 11), crowd(place, 4e-4 * radius, 40, 12)
        chord2 = ((left.directions[:, None] - right.directions[:, :, None]) ** 2).sum(axis=0)
        within = chord2 <= chord_of(radius * ARCSEC) ** 2
        for share in (0.03, 0.4, 3.0):
            laid = zones.Zones(left, share * radius * ARCSEC)
            times = np.zeros(within.shape, int)
            sure = np.zeros(within.shape, int)
            back = {(ra, dec): at for at, (ra, dec) in enumerate(zip(left.ra, left.dec, strict=True))}
            of = np.array([back[each] for each in zip(laid.side.ra, laid.side.dec, strict=True)])
            done = 0
            for some, near in laid.near(right, radius * ARCSEC):
                for at in range(len(near.probe)):
                    row = done + near.probe[at]
                    times[row, of[near.first[at] : near.stop[at]]] += 1
                    sure[row, of[near.sure_first[at] : near.sure_stop[at]]] += 1
                    assert near.first[at] <= near.sure_first[at] <= near.sure_stop[at] <= near.stop[at]
                done += len(some)
            assert done == len(right)
            assert times.max(initial=0) <= 1
            assert not (within & (times == 0)).any()
            assert not (sure.astype(bool) & ~within).any()


@pytest.mark.parametrize("way", WAYS)
def test_a_side_without_rows_has_no_pairs(way: str) -> None:
    side, none = crowd((0.0, 0.0), 1.0, 10, 5), crowd((0.0, 0.0), 1.0, 0, 6)
    for left, right in ((side, none), (none, side), (none, none)):
        pairs, histogram = counted(way, left, right, radius_arcsec=9.0, edges=np.array([0.0, 1.0, 2.0]))
        assert histogram is not None
        assert (pairs, histogram.tolist()) == (0, [0, 0])
