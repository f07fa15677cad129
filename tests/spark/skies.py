"""Skies that are hard to split, each in its own way."""

from __future__ import annotations

import healpy
import numpy as np
from numpy.typing import NDArray

Positions = tuple[NDArray[np.float64], NDArray[np.float64]]


def even(rows: int) -> Positions:
    """Spread evenly."""
    rng = np.random.default_rng(11)
    return rng.uniform(0, 360, rows), np.degrees(np.arcsin(rng.uniform(-1, 1, rows)))


def one_pixel(rows: int) -> Positions:
    """Everything in one pixel of order 20, 0.2 arcseconds wide."""
    rng = np.random.default_rng(12)
    inside = (np.int64(123_456_789_012) << 18) + rng.integers(0, 1 << 18, rows)
    ra, dec = healpy.pix2ang(2**29, inside, nest=True, lonlat=True)
    return ra, dec


def poles(rows: int) -> Positions:
    """Around both poles, and on them, where every right ascension is the same place."""
    rng = np.random.default_rng(13)
    dec = 90 - np.abs(rng.normal(0, 0.3, rows))
    dec[::50] = 90.0
    dec[1::2] *= -1
    return rng.uniform(0, 360, rows), dec


def milky_way(rows: int) -> Positions:
    """A disc with a bulge and clusters over a thin halo, in ICRS."""
    rng = np.random.default_rng(14)
    lon, lat = rng.uniform(0, 360, rows), rng.laplace(0, 3, rows)
    bulge, cluster, halo = (rng.random(rows) < part for part in (0.3, 0.2, 0.1))
    lon[bulge], lat[bulge] = rng.normal(0, 5, bulge.sum()), rng.normal(0, 3, bulge.sum())
    lon[cluster], lat[cluster] = (
        120 + rng.normal(0, 0.01, cluster.sum()),
        -25 + rng.normal(0, 0.01, cluster.sum()),
    )
    lat[halo] = np.degrees(np.arcsin(rng.uniform(-1, 1, halo.sum())))
    ra, dec = healpy.Rotator(coord=["G", "C"])(lon % 360, np.clip(lat, -89.9, 89.9), lonlat=True)
    return ra % 360, dec


SKIES = {"even": even, "one pixel": one_pixel, "poles": poles, "Milky Way": milky_way}
