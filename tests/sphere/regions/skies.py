"""Positions to try regions with, and regions of all kinds and sizes."""

from __future__ import annotations

import numpy as np
from hipslake.errors import RegionError
from hipslake.sphere.pixels import order29
from hipslake.sphere.regions import Box, Cone, Polygon, Region
from hypothesis import assume
from hypothesis import strategies as st

POLES_AND_SEAMS = [-90.0, -89.9999999, -66.4, -41.8103149, 0.0, 41.8103149, 89.9999999, 90.0]
RA = st.one_of(st.floats(-360, 720), st.sampled_from([0.0, 45.0, 90.0, 180.0, 270.0, 359.9999999, 360.0]))
DEC = st.one_of(st.floats(-90, 90), st.sampled_from(POLES_AND_SEAMS))
SIZE_DEG = st.one_of(
    st.sampled_from([0.0, 1e-6 / 3600, 1e-3 / 3600, 1 / 3600, 3.0, 90.0, 179.9999, 180.0]),
    st.floats(-9, 2.25).map(lambda exponent: 10**exponent),
)
CONES = st.builds(Cone, RA, DEC, SIZE_DEG)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Boxes; across ra = 0, at the poles, without extent, around the whole sky."""
    ra, dec = draw(RA), draw(DEC)
    wide, high = draw(st.one_of(SIZE_DEG, st.just(360.0))), draw(SIZE_DEG)
    ra_min, ra_max = (0.0, 360.0) if wide == 360 else (ra % 360, (ra + wide) % 360)
    return Box(ra_min, ra_max, dec, min(dec + high, 90.0))


@st.composite
def polygons(draw: st.DrawFn) -> Polygon:
    """Star-shaped polygons around a position, from milliarcseconds to beyond a hemisphere."""
    ra, dec, size = draw(RA), draw(DEC), draw(st.floats(-7, 2.1).map(lambda exponent: 10**exponent))
    number = draw(st.integers(3, 12))
    near = draw(st.lists(st.floats(0.3, 1), min_size=number, max_size=number))
    turn = np.linspace(0, 360, number, endpoint=False)
    try:
        return Polygon(zip(*moved(ra, dec, turn, size * np.array(near)), strict=True))
    except RegionError:  # an edge of more than half a circle took the other way, and crosses another
        assume(False)
        raise


REGIONS = st.one_of(CONES, boxes(), polygons())


def moved(
    ra: float, dec: float, bearing: np.ndarray, distance_deg: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The positions at bearings (degrees, from north to east) and distances from one."""
    lon, lat, turn, away = (np.radians(values) for values in (ra, dec, bearing, distance_deg))
    centre = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    north = np.array([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    heading = np.cos(turn)[:, None] * north + np.sin(turn)[:, None] * east
    x, y, z = (np.cos(away)[:, None] * centre + np.sin(away)[:, None] * heading).T
    return np.degrees(np.arctan2(y, x)) % 360, np.degrees(np.arctan2(z, np.hypot(x, y)))


def positions_around(region: Region, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions all over the sky, and many in and around a region, at its scale."""
    rng = np.random.default_rng(seed)
    ra = [rng.uniform(-360, 720, 500), np.array([0.0, 77.0, 0.0, 200.0])]
    dec = [np.degrees(np.arcsin(rng.uniform(-1, 1, 500))), np.array([90.0, 90.0, -90.0, -90.0])]
    for corner in corners(region):
        away = 10 ** rng.uniform(-12, 2.2, 200)
        found = moved(*corner, rng.uniform(0, 360, 200), away)
        ra += [found[0], np.array([corner[0]])]
        dec += [found[1], np.array([corner[1]])]
    return np.concatenate(ra), np.concatenate(dec)


def corners(region: Region) -> list[tuple[float, float]]:
    """Positions that a region is about."""
    if isinstance(region, Cone):
        rim = moved(region.ra, region.dec, np.arange(0, 360, 60.0), np.full(6, region.radius_deg))
        return [(region.ra, region.dec), *zip(*(edge.tolist() for edge in rim), strict=True)]
    if isinstance(region, Box):
        return [
            (ra, dec) for ra in (region.ra_min, region.ra_max) for dec in (region.dec_min, region.dec_max)
        ]
    assert isinstance(region, Polygon)
    return list(region.vertices)


def in_cover(region: Region, ra: np.ndarray, dec: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which positions lie in the cover, and in its certain part."""
    cover, index = region.cover(), order29(ra, dec)
    return cover.intervals.hold(index), cover.certain.hold(index)
