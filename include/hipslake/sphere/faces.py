"""The twelve faces of HEALPix as unit squares, on which every pixel is a square and its edges are straight.

x runs to the north-east and y to the north-west. Source: Gorski et al. 2005, ApJ 622, 759, section 5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hipslake.sphere.pixels import MAX_ORDER

# Per face: where its southern corner lies, in steps of half a face from the north pole and of 45 degrees.
RING_OF_CORNER = np.repeat([2.0, 3.0, 4.0], 4)
LONGITUDE_OF_CORNER = np.array([1.0, 3.0, 5.0, 7.0, 0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0])

# No path on the sphere is shorter than this many times the way it takes over the faces: the least singular
# value of the projection, 0.656, is reached at the meridians that part the polar faces.
LEAST_STRETCH = 0.65


_MASKS = (
    0x5555555555555555,
    0x3333333333333333,
    0x0F0F0F0F0F0F0F0F,
    0x00FF00FF00FF00FF,
    0x0000FFFF0000FFFF,
    0x00000000FFFFFFFF,
)
"""Groups of 1, 2, 4, 8, 16 and 32 bits, with as many zeros between them."""


def places(order: NDArray[np.int64] | int, npix: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """The face of pixels, and their column and row on it.

    Parameters
    ----------
    order, npix : int64[n]

    Returns
    -------
    face, column, row : int64[n]
        The pixel covers [column, column + 1] x [row, row + 1], in units of 2**-order.
    """
    inside = npix & ((np.int64(1) << (2 * order)) - 1)
    return npix >> (2 * order), every_other_bit(inside), every_other_bit(inside >> 1)


def every_other_bit(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bits at even places, moved together.

    Examples
    --------
    >>> every_other_bit(np.array([0b100101, 0b1010])).tolist()
    [3, 0]
    """
    bits = numbers & _MASKS[0]
    for level, mask in enumerate(_MASKS[1:]):
        bits |= bits >> (1 << level)
        bits &= mask
    return bits


def spread_bits(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The inverse of `every_other_bit`, for numbers below 2**32."""
    bits = numbers.copy()
    for level in reversed(range(len(_MASKS) - 1)):
        bits |= bits << (1 << level)
        bits &= _MASKS[level]
    return bits


def depth_in(order: int, h29: NDArray[np.int64]) -> NDArray[np.float64]:
    """How far order-29 pixels lie inside the pixel of an order that holds them, on its face.

    Parameters
    ----------
    order : int
    h29 : int64[n]

    Returns
    -------
    float64[n]
        Way from anywhere in each to the nearest edge of the pixel, at least; faces have side 1.
    """
    side = np.int64(1) << (MAX_ORDER - order)
    inside = h29 & (side * side - 1)
    column, row = every_other_bit(inside), every_other_bit(inside >> 1)
    nearest = np.minimum(np.minimum(column, side - 1 - column), np.minimum(row, side - 1 - row))
    return nearest * 2.0**-MAX_ORDER


def vectors_on(
    face: NDArray[np.int64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Unit vectors of places on faces.

    Parameters
    ----------
    face : int64[n]
    x, y : float64[n]
        In [0, 1].

    Returns
    -------
    float64[n, 3]
    """
    ring = RING_OF_CORNER[face] - x - y
    to_pole = np.minimum(np.minimum(ring, 4.0 - ring), 1.0)
    polar = to_pole * to_pole / 3.0
    z = np.where(ring < 1.0, 1.0 - polar, np.where(ring > 3.0, polar - 1.0, (2.0 - ring) * (2.0 / 3.0)))
    sine = np.sqrt(np.where(to_pole < 1.0, polar * (2.0 - polar), 1.0 - z * z))
    with np.errstate(invalid="ignore", divide="ignore"):
        turned = np.where(to_pole > 0.0, (x - y) / to_pole, 0.0)  # at a pole every longitude is right
    longitude = (np.pi / 4.0) * (LONGITUDE_OF_CORNER[face] + turned)
    return np.stack([sine * np.cos(longitude), sine * np.sin(longitude), z], axis=-1)
