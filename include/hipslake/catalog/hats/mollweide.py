"""The Mollweide projection of the sky, as astronomers look at it: right ascension grows to the left.

Formulas: Snyder 1987, USGS Professional Paper 1395, p. 251. The ellipse has half axes 2 and 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_STEPS = 40  # halvings of Newton's error near a pole, where it converges linearly


def forward(ra: ArrayLike, dec: ArrayLike, *, center: float = 0.0) -> tuple[Floats, Floats]:
    """Project positions.

    Parameters
    ----------
    ra, dec : float[n]
        Degrees.
    center : float
        Right ascension in the middle, degrees.

    Returns
    -------
    x, y : float[n]
        x in [-2, 2], growing to the right; y in [-1, 1].
    """
    lon = (np.asarray(ra, np.float64) - center + 180.0) % 360.0 - 180.0
    goal = np.pi * np.sin(np.radians(np.asarray(dec, np.float64)))
    theta = np.radians(np.asarray(dec, np.float64))
    for _ in range(_STEPS):
        slope = 2.0 + 2.0 * np.cos(2.0 * theta)
        error = 2.0 * theta + np.sin(2.0 * theta) - goal
        theta = theta - np.divide(error, slope, out=np.zeros_like(theta), where=slope > 1e-12)
    return -2.0 * lon / 180.0 * np.cos(theta), np.sin(theta)


def inverse(x: ArrayLike, y: ArrayLike, *, center: float = 0.0) -> tuple[Floats, Floats]:
    """Positions (ra in [0, 360), dec, degrees) of points in the plane; NaN outside of the ellipse.

    The arrays broadcast: for a grid, give a row and a column.
    """
    across, up = np.asarray(x, np.float64), np.asarray(y, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        theta = np.arcsin(up)
        lon = -across / (2.0 * np.cos(theta)) * 180.0
        dec = np.degrees(np.arcsin((2.0 * theta + np.sin(2.0 * theta)) / np.pi))
    outside = ~(across**2 / 4.0 + up**2 <= 1.0)
    ra = np.where(outside, np.nan, lon) + center % 360.0
    ra += np.where(ra < 0.0, 360.0, np.where(ra >= 360.0, -360.0, 0.0))  # `%` takes ten times as long
    return ra, np.where(outside, np.nan, dec)
