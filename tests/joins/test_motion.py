"""Motion through space: astropy carries the stars to the same places."""

from __future__ import annotations

import warnings

import astropy.units as u
import numpy as np
import pytest
from astropy.coordinates import Distance, SkyCoord
from astropy.time import Time
from erfa import ErfaWarning
from hipslake.joins.motion import Motion, largest_shift, propagate
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

MAS = 3_600_000.0
BARNARD = (269.4520750, 4.6933649, -802.803, 10362.542, 546.9759, -110.51)


def carried(ra: np.ndarray, dec: np.ndarray, motion: Motion, years: float) -> SkyCoord:
    """Where astropy says that the stars stand."""
    more = {}
    if motion.parallax is not None:
        more["distance"] = Distance(parallax=motion.parallax * u.mas)
    if motion.radial_velocity is not None:
        more["radial_velocity"] = motion.radial_velocity * u.km / u.s
    place = SkyCoord(
        ra * u.deg,
        dec * u.deg,
        pm_ra_cosdec=motion.pmra * u.mas / u.yr,
        pm_dec=motion.pmdec * u.mas / u.yr,
        obstime=Time(2000.0, format="jyear", scale="tdb"),
        **more,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ErfaWarning)
        return place.apply_space_motion(new_obstime=Time(2000.0 + years, format="jyear", scale="tdb"))


def apart(ra: np.ndarray, dec: np.ndarray, other: SkyCoord) -> np.ndarray:
    """Milliarcseconds."""
    return SkyCoord(ra * u.deg, dec * u.deg).separation(SkyCoord(other.ra, other.dec)).mas


@given(st.integers(0, 2**32), st.floats(-150, 150), st.booleans())
@settings(max_examples=examples(60))
def test_stars_go_where_astropy_carries_them(seed: int, years: float, near_pole: bool) -> None:
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360, 50), np.degrees(np.arcsin(rng.uniform(-1, 1, 50)))
    if near_pole:
        dec = 90.0 - 10.0 ** rng.uniform(-2, 0, 50)  # nearer, ERFA takes some motions for faster than light
    motion = Motion(*rng.normal(0, 500, (2, 50)))
    place = propagate(ra, dec, motion, years)
    assert apart(place.ra, place.dec, carried(ra, dec, motion, years)).max() < 0.01
    assert np.all((place.ra >= 0) & (place.ra < 360))


def test_parallax_and_radial_velocity_count() -> None:
    """Barnard's star comes nearer, and so moves faster and faster."""
    ra, dec, pmra, pmdec, parallax, velocity = (np.array([value]) for value in BARNARD)
    full = Motion(pmra, pmdec, parallax, velocity)
    place = propagate(ra, dec, full, 24.75)
    assert apart(place.ra, place.dec, carried(ra, dec, full, 24.75)).max() < 0.2
    flat = propagate(ra, dec, Motion(pmra, pmdec), 24.75)
    assert apart(place.ra, place.dec, SkyCoord(flat.ra * u.deg, flat.dec * u.deg)).max() > 100


def test_what_is_not_known_does_not_move_a_row() -> None:
    ra, dec = np.array([0.1 + 0.2, 10.0, 20.0, 30.0]), np.full(4, 45.678901234567890)
    nan = np.nan
    motion = Motion(np.array([nan, 100.0, 0.0, 100.0]), np.array([100.0, nan, 0.0, 100.0]))
    place = propagate(ra, dec, motion, 100.0)
    assert place.ra[:3].tolist() == ra[:3].tolist()
    assert place.dec[:3].tolist() == dec[:3].tolist()
    assert place.dec[3] != dec[3]


@pytest.mark.parametrize("parallax", [np.nan, 0.0, -5.0])
def test_a_distance_that_is_not_known_has_no_radial_motion(parallax: float) -> None:
    ra, dec, one = np.array([10.0]), np.array([20.0]), np.array([100.0])
    motion = Motion(one, one, np.array([parallax]), np.array([-300.0]))
    flat = propagate(ra, dec, Motion(one, one), 50.0)
    place = propagate(ra, dec, motion, 50.0)
    assert (place.ra[0], place.dec[0]) == (flat.ra[0], flat.dec[0])


@given(st.integers(0, 2**32), st.floats(-100, 100))
@settings(max_examples=examples(60))
def test_no_row_moves_farther_than_the_bound(seed: int, years: float) -> None:
    rng = np.random.default_rng(seed)
    ra, dec = rng.uniform(0, 360, 100), np.degrees(np.arcsin(rng.uniform(-1, 1, 100)))
    motion = Motion(*rng.normal(0, 5000, (2, 100)), rng.uniform(-10, 800, 100), rng.normal(0, 300, 100))
    place = propagate(ra, dec, motion, years)
    moved = SkyCoord(ra * u.deg, dec * u.deg).separation(SkyCoord(place.ra * u.deg, place.dec * u.deg)).arcsec
    fastest = float(np.hypot(motion.pmra, motion.pmdec).max())
    receding = float(np.abs(motion.receding()).max())
    assert moved.max() <= largest_shift(fastest, years, receding=receding) + 1e-9


def test_nothing_bounds_what_comes_through_the_sun() -> None:
    assert largest_shift(1.0, 100.0, receding=0.02) == np.inf
