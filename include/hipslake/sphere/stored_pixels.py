"""Whether order-29 pixels that files hold are those of their positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hipslake.sphere.pixels import WHOLE_SKY, centers29, order29
from hipslake.sphere.vectors import unit_vectors

PIXEL_REACH = 4e-9  # radians: no point of an order-29 pixel is so far from its center


def lie_elsewhere(
    ra: NDArray[np.float64],
    dec: NDArray[np.float64],
    h29: NDArray[np.int64],
    computed: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]:
    """Which positions lie in another order-29 pixel, and not on its border, where libraries round otherwise.

    Parameters
    ----------
    ra, dec : float64[n]
        ICRS, degrees.
    h29 : int64[n]
        NESTED pixel numbers that were stored; any numbers.
    computed : int64[n], optional
        Those of the positions, if they are known.

    Returns
    -------
    bool[n]
        False where the pixel is that of the position, or its center is within `PIXEL_REACH`.
    """
    differs: NDArray[np.bool_] = (order29(ra, dec) if computed is None else computed) != h29
    there = np.flatnonzero(differs)
    valid = (h29[there] >= 0) & (h29[there] < WHOLE_SKY[1])
    near = there[valid]
    centers = unit_vectors(*centers29(h29[near]))
    apart = np.linalg.norm(unit_vectors(ra[near], dec[near]) - centers, axis=1)
    differs[near] = apart > PIXEL_REACH
    return differs
