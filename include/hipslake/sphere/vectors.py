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
