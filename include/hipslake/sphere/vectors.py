"""Directions as unit vectors, and the angles between them, exact at every scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.sphere.pixels import pixel_functions

Vectors = NDArray[np.float64]  # [..., 3]


def unit_vectors(ra: ArrayLike, dec: ArrayLike) -> Vectors:
    """Unit vectors of positions in degrees, float64[..., 3]."""
    lon, lat = np.radians(ra), np.radians(dec)
    across = np.cos(lat)
    return np.stack([across * np.cos(lon), across * np.sin(lon), np.sin(lat)], axis=-1)


def angles(a: Vectors, b: Vectors) -> NDArray[np.float64]:
    """Angles between unit vectors, in radians; arrays broadcast.

    By the chord and its complement (Kahan), since the arc cosine of a dot product knows nothing of angles
    below some milliarcseconds.
    """
    return 2 * np.arctan2(np.linalg.norm(a - b, axis=-1), np.linalg.norm(a + b, axis=-1))


def pixel_centers(order: int, npix: NDArray[np.int64]) -> Vectors:
    """Centres of pixels of one order, NESTED, float64[n, 3]."""
    return np.stack(pixel_functions().pix2vec(1 << order, npix, nest=True), axis=-1)


def moved_along(
    ra: ArrayLike, dec: ArrayLike, distance: ArrayLike, position_angle: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where great circles lead from positions; all in degrees, ICRS, arrays of one shape.

    Parameters
    ----------
    ra, dec : float[...]
    distance : float[...]
        Along the great circle.
    position_angle : float[...]
        Of its direction at the start: 0 is north, 90 is east.

    Returns
    -------
    ra, dec : float64[...]
        ra in [0, 360).

    Examples
    --------
    >>> ra, dec = moved_along(10.0, 0.0, 2.0, 90.0)
    >>> print(f"{ra:.6f} {dec:.6f}")
    12.000000 0.000000
    """
    lon, lat, far, towards = (np.radians(each) for each in (ra, dec, distance, position_angle))
    east = np.sin(far) * np.sin(towards)
    north = np.sin(far) * np.cos(towards)
    height = np.sin(lat) * np.cos(far) + np.cos(lat) * north
    outward = np.cos(lat) * np.cos(far) - np.sin(lat) * north
    found = np.degrees(lon + np.arctan2(east, outward)) % 360.0
    return found, np.degrees(np.arctan2(height, np.hypot(outward, east)))
