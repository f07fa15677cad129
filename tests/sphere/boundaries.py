"""Distances from pixels whose boundaries healpy draws: what margins are held against."""

from __future__ import annotations

import healpy
import numpy as np
from hipslake.sphere.pixels import Pixel
from numpy.typing import NDArray


def distances(
    vectors: NDArray[np.float64], pixel: Pixel, steps: int = 64
) -> tuple[NDArray[np.float64], float]:
    """Radians from the boundary of a pixel, and how wrong they may be, with so many arcs per edge."""
    begin = healpy.boundaries(1 << pixel.order, pixel.npix, step=steps, nest=True).T
    way = np.roll(begin, -1, axis=0) - begin
    length = (way * way).sum(axis=1)
    nearest = np.empty(len(vectors))
    rows = max(1, (1 << 17) // (4 * steps))
    for first in range(0, len(vectors), rows):
        these = vectors[first : first + rows]
        share = np.clip((these @ way.T - (begin * way).sum(axis=1)) / length, 0, 1)
        rest = these[:, None, :] - begin - share[:, :, None] * way
        nearest[first : first + rows] = np.sqrt((rest * rest).sum(axis=2).min(axis=1))
    curvature = 8.0 * 2**pixel.order  # at a pole, edges bend as pixels shrink
    return 2 * np.arcsin(np.clip(nearest / 2, 0, 1)), length.max() / 8 * curvature


def rows_near(
    vectors: NDArray[np.float64], h29: NDArray[np.int64], pixel: Pixel, radians: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows outside of a pixel that are surely within a distance of it, and those that may be or not."""
    outside = (h29 < pixel.interval[0]) | (h29 >= pixel.interval[1])
    middle = np.array(healpy.pix2vec(1 << pixel.order, pixel.npix, nest=True))
    reach = min(1.01 * healpy.max_pixrad(1 << pixel.order) + radians, np.pi)
    open_rows = np.flatnonzero(outside & (vectors @ middle >= np.cos(reach)))
    surely = []
    for steps in (16, 1 << 13):
        away, slack = distances(vectors[open_rows], pixel, steps)
        surely.append(open_rows[away < radians - slack])
        open_rows = open_rows[np.abs(away - radians) <= slack]
    return np.sort(np.concatenate(surely)), open_rows
