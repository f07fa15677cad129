"""Positions at another epoch: stars move along straight lines through space.

Source: The Hipparcos and Tycho Catalogues, ESA SP-1200 (1997), volume 1, section 1.5.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.pair_grid import SkyPositions
from hipslake.sphere.pixels import order29

AU_KM_YR_PER_S = 149_597_870.7 / (365.25 * 86_400.0)
"""One astronomical unit per Julian year, in km/s (4.74...)."""
MAS = np.pi / 180 / 3_600_000


@dataclass(frozen=True)
class Motion:
    """How the rows of one side move; NaN where it is not known.

    Attributes
    ----------
    pmra, pmdec : float64[n]
        Proper motion in mas per year; that in right ascension includes the factor cos(dec).
    parallax : float64[n] or None
        mas.
    radial_velocity : float64[n] or None
        km/s, positive away from the Sun. It counts where the parallax is known and positive.
    """

    pmra: NDArray[np.float64]
    pmdec: NDArray[np.float64]
    parallax: NDArray[np.float64] | None = None
    radial_velocity: NDArray[np.float64] | None = None

    def receding(self) -> NDArray[np.float64]:
        """How fast distances grow, as a fraction of them per year; 0 where that is not known."""
        if self.parallax is None or self.radial_velocity is None:
            return np.zeros(len(self.pmra))
        known = np.isfinite(self.parallax) & (self.parallax > 0.0) & np.isfinite(self.radial_velocity)
        rate = np.zeros(len(self.pmra))
        rate[known] = self.radial_velocity[known] / AU_KM_YR_PER_S * self.parallax[known] * MAS
        return rate


def propagate(
    ra: NDArray[np.float64], dec: NDArray[np.float64], motion: Motion, years: float
) -> SkyPositions:
    """Where rows stand some years later.

    Parameters
    ----------
    ra, dec : float64[n]
        ICRS degrees at their epoch.
    motion : Motion
        Rows whose proper motion is not known in both directions stay where they are.
    years : float
        Julian years from their epoch to the wanted one; may be negative.

    Returns
    -------
    SkyPositions
        Rows that do not move keep their very numbers.
    """
    moves = np.isfinite(motion.pmra) & np.isfinite(motion.pmdec)
    moves &= (motion.pmra != 0.0) | (motion.pmdec != 0.0)
    rows = np.flatnonzero(moves)
    ra, dec = ra.copy(), dec.copy()
    if years and len(rows):
        lon, lat = np.radians(ra[rows]), np.radians(dec[rows])
        sin_lon, cos_lon, sin_lat, cos_lat = np.sin(lon), np.cos(lon), np.sin(lat), np.cos(lat)
        east, north = motion.pmra[rows] * MAS * years, motion.pmdec[rows] * MAS * years
        out = 1.0 + motion.receding()[rows] * years
        across = out * cos_lat - north * sin_lat
        x = across * cos_lon - east * sin_lon
        y = across * sin_lon + east * cos_lon
        z = out * sin_lat + north * cos_lat
        ra[rows] = np.degrees(np.arctan2(y, x)) % 360.0
        dec[rows] = np.degrees(np.arctan2(z, np.hypot(x, y)))
    return SkyPositions(ra, dec, order29(ra, dec))


def largest_shift(proper_motion: float, years: float, *, receding: float = 0.0) -> float:
    """A bound on how far any row of a side moves, in arcseconds.

    Parameters
    ----------
    proper_motion : float
        Largest total proper motion, mas per year.
    years : float
    receding : float
        Largest change of a distance as a fraction of it per year, of either sign: what comes nearer moves
        faster and faster.

    Examples
    --------
    >>> round(largest_shift(10_393.0, 24.75), 1)  # Barnard's star
    257.2
    """
    grown = abs(receding * years)
    if grown >= 1.0:
        return np.inf
    return float(proper_motion * abs(years) / 1000.0 / (1.0 - grown))
