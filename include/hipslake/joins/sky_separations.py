"""How far apart two positions on the sky are, and in which direction: along the great circle through both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.pair_grid import SkyPositions

ARCSEC = np.pi / 180 / 3600
"""Radians of an arcsecond."""


def separation_of(chord2: NDArray[np.float64]) -> NDArray[np.float64]:
    """Arcseconds along the great circle, of squares of chords.

    >>> round(float(separation_of(np.array([2.0]))[0]) / 3600, 9)
    90.0
    """
    return 2.0 * np.arcsin(np.minimum(np.sqrt(chord2) / 2.0, 1.0)) / ARCSEC


def position_angle(here: SkyPositions, there: SkyPositions) -> NDArray[np.float64]:
    """The direction from positions to others, degrees in [0, 360) from north over east.

    Computed from the differences of the angles, so that nothing is lost where both are near each other.

    Examples
    --------
    >>> zero, one = np.zeros(1), np.ones(1)
    >>> none = np.zeros(1, np.int64)
    >>> position_angle(SkyPositions(zero, zero, none), SkyPositions(one, zero, none))
    array([90.])
    """
    lat, lon = np.radians(here.dec), np.radians(there.ra - here.ra)
    up = np.radians(there.dec - here.dec)
    there_lat = np.radians(there.dec)
    east = np.sin(lon) * np.cos(there_lat)
    north = np.sin(up) + 2.0 * np.sin(lat) * np.cos(there_lat) * np.sin(lon / 2.0) ** 2
    angle = np.degrees(np.arctan2(east, north)) % 360.0
    return np.where(angle >= 360.0, 0.0, angle)  # -1e-15 % 360 rounds up to 360
