"""Skies where a matcher may go wrong, and the plainest matcher there is."""

from __future__ import annotations

import healpy
import numpy as np
from hipslake.joins.pair_grid import SkyPositions
from hipslake.sphere.pixels import order29
from hypothesis import strategies as st

BORDERS = healpy.boundaries(1, np.arange(12), step=5, nest=True)  # of the base pixels, corners among them
PLACES = [
    *((0.0, 0.0), (0.0, 90.0), (0.0, -90.0), (360.0, 12.0), (123.4, -56.7), (22.5, 41.9)),
    (45.0, float(np.degrees(np.arcsin(2 / 3)))),  # where the two projections meet
    *zip(*(axis.tolist() for axis in healpy.vec2ang(np.hstack(BORDERS).T, lonlat=True)), strict=True),
]


def placed(ra: np.ndarray, dec: np.ndarray) -> SkyPositions:
    """Positions anywhere: ra wraps, and what is past a pole comes down on the other side."""
    dec = (np.asarray(dec, float) + 90.0) % 360.0
    over = dec > 180.0
    dec = np.where(over, 360.0 - dec, dec) - 90.0
    ra = np.where(over, np.asarray(ra, float) + 180.0, ra) % 360.0
    ra[ra >= 360.0] = 0.0
    return SkyPositions(ra, dec, order29(ra, dec))


def ascending(rows: SkyPositions) -> SkyPositions:
    """The rows along the curve, as a catalog has them."""
    return rows.take(np.argsort(rows.h29, kind="stable"))


@st.composite
def two_sides(draw: st.DrawFn) -> tuple[SkyPositions, SkyPositions, float]:
    """Two sides around a place, some rows of them the same, and a radius in arcseconds."""
    ra, dec = draw(st.sampled_from(PLACES))
    radius = 10.0 ** draw(st.floats(-3.5, 3.5))
    seed, rows, others = draw(st.integers(0, 2**32)), draw(st.integers(0, 60)), draw(st.integers(0, 60))
    width = radius / 3600 * draw(st.sampled_from([0.0, 0.3, 1.0, 4.0]))
    rng = np.random.default_rng(seed)

    def around(count: int) -> tuple[np.ndarray, np.ndarray]:
        up = dec + width * rng.normal(size=count)
        return ra + width * rng.normal(size=count) / max(np.cos(np.radians(dec)), 1e-3), up

    left, right = (placed(*around(count)) for count in (rows, others))
    if rows and others and draw(st.booleans()):  # rows that stand in the very same place, and doubles
        same = rng.integers(0, rows, others)
        right = left.take(same)
    return ascending(left), ascending(right), min(radius, 3600.0)


def chords(left: SkyPositions, right: SkyPositions) -> np.ndarray:
    """The chord of every pair, float64[n, m]."""
    vectors = [healpy.ang2vec(side.ra, side.dec, lonlat=True).reshape(-1, 3) for side in (left, right)]
    return np.linalg.norm(vectors[0][:, None, :] - vectors[1][None, :, :], axis=2)
