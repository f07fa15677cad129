"""The interface of regions on the sky, and their covers of pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.errors import RegionError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import MAX_ORDER, starts, stops
from hipslake.sphere.vectors import Vectors, pixel_centers

BORDER_PIXELS = 500
"""A cover goes no deeper than to the first order that has so many pixels on the region's border."""

TOLERANCE = np.radians(1e-9 / 3600)
"""Positions within 1e-9 arcseconds (here in radians) of a border count as on it: the limit of doubles."""

_ROUNDING = 1e-12  # radians: far more than errors of vectors, far less than a pixel of order 29


def checked(value: float, low: float, high: float, *, what: str) -> float:
    """A number as float, within [low, high].

    Raises
    ------
    RegionError
        It is none, or lies outside; the message says `what` it is.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise RegionError(f"{what} is a number, not {value!r}") from None
    if not low <= number <= high:  # not NaN either
        raise RegionError(f"{what} is {number:g}, outside [{low:g}, {high:g}]")
    return number


def checked_ra(value: float, *, what: str) -> float:
    """A right ascension in degrees; any of three turns around the sky."""
    return checked(value, -360.0, 720.0, what=f"{what}, degrees,")


def checked_dec(value: float, *, what: str) -> float:
    """A declination in degrees."""
    return checked(value, -90.0, 90.0, what=f"{what}, degrees,")


def written(number: float) -> str:
    """A number as text, as short as reads back to the same one.

    Examples
    --------
    >>> written(3.0), written(0.1), written(-1e-07)
    ('3', '0.1', '-1e-07')
    """
    if number.is_integer() and abs(number) < 1e6:
        return str(math.trunc(number))
    return repr(number)


@dataclass(frozen=True)
class Cover:
    """The pixels that hold a region, and maybe a little more.

    Attributes
    ----------
    intervals : Intervals
        No position of the region lies elsewhere.
    certain : Intervals
        A part of them; every position there lies in the region.
    """

    intervals: Intervals
    certain: Intervals


class Region(Protocol):
    """A part of the sky, ICRS. Its text, `str(region)`, gives it back through `parse_region`."""

    def cover(self) -> Cover:
        """The order-29 intervals that hold the region; as few for a small region as for a large one."""

    def contains(self, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.bool_]:
        """Which positions lie in the region or on its border, of the positions' shape.

        Parameters
        ----------
        ra, dec : float[...]
            ICRS degrees. ra wraps: 370 is 10, and -10 is 350; dec in [-90, 90].
        """


class Shape(Protocol):
    """A region with a border."""

    def border(self, points: Vectors) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """How far points are from the border, and which of them are inside.

        Parameters
        ----------
        points : float64[n, 3]
            Unit vectors.

        Returns
        -------
        distance : float64[n]
            Radians; never more than it is. Infinite if the region has no border.
        inside : bool[n]
        """


def cover_of(shape: Shape) -> Cover:
    """Cover a shape, from the base pixels down to where its border is followed closely.

    A pixel lies in the circle around its centre that reaches its farthest corner. If the border is farther
    away, the whole pixel is on the centre's side of it; otherwise its children are looked at. So the depth
    follows from the size: as long as a region is small beside the pixels, a few hold it at each order.
    """
    open_npix = np.arange(12)
    certain: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for order in range(MAX_ORDER + 1):
        distance, inside = shape.border(pixel_centers(order, open_npix))
        decided = distance > _reach(order)
        whole = open_npix[decided & inside]
        certain.append((starts(order, whole), stops(order, whole)))
        open_npix = open_npix[~decided]
        if not len(open_npix) or len(open_npix) >= BORDER_PIXELS or order == MAX_ORDER:
            break
        open_npix = (open_npix[:, None] * 4 + np.arange(4)).ravel()
    start, stop = (np.concatenate(edges) for edges in zip(*certain, strict=True))
    return Cover(
        Intervals.union(
            np.concatenate([start, starts(order, open_npix)]), np.concatenate([stop, stops(order, open_npix)])
        ),
        Intervals.union(start, stop),
    )


def _reach(order: int) -> float:
    """Radians from the centre of a pixel to the farthest corner that any pixel of the order has.

    That is the corner of equatorial pixels that touches the polar cap: `max_pixrad` of the HEALPix library.
    """
    nside = 1 << order
    corner, centre = 1 - (1 - 1 / nside) ** 2 / 3, 2 / 3
    a = _at_height(centre, np.pi / (4 * nside))
    b = _at_height(corner, 0.0)
    return float(2 * np.arcsin(np.linalg.norm(a - b) / 2)) * (1 + 1e-6) + _ROUNDING


def _at_height(z: float, phi: float) -> Vectors:
    across = np.sqrt(1 - z * z)
    return np.array([across * np.cos(phi), across * np.sin(phi), z])
