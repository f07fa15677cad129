"""A box: a range of right ascension and one of declination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.errors import RegionError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.regions.region import Cover, checked_dec, checked_ra, cover_of, written
from hipslake.sphere.vectors import Vectors, angles, unit_vectors


@dataclass(frozen=True)
class Box:
    """All positions between two meridians and two parallels, the borders too.

    Its sides are lines of equal ra and of equal dec; the latter are no great circles. A pole belongs to
    every box that reaches it.

    Parameters
    ----------
    ra_min, ra_max : float
        ICRS degrees, from the first eastwards to the second: 350 to 10 is a range of 20 degrees across 0, and
        so is -10 to 10. A range of 360 degrees (0 to 360) is the whole circle, one of 0 a line.
    dec_min, dec_max : float
        ICRS degrees.

    Raises
    ------
    RegionError
        A number is out of bounds, dec runs downwards, or ra runs over more than 360 degrees.

    Examples
    --------
    >>> box = Box(350, 10, -5, 5)
    >>> str(box)
    'box ra 350..10 dec -5..5'
    >>> box.contains([0, 10, 360, 20], [0, 5, -5.1, 0])
    array([ True,  True, False, False])
    """

    ra_min: float
    ra_max: float
    dec_min: float
    dec_max: float

    def __post_init__(self) -> None:
        for name, value in vars(self).copy().items():
            check = checked_ra if name.startswith("ra") else checked_dec
            object.__setattr__(self, name, check(value, what=f"{name} of a box"))
        if self.dec_min > self.dec_max:
            raise RegionError(
                f"the dec of a box runs upwards, not from {self.dec_min:g} to {self.dec_max:g}; swap them"
            )
        if self.ra_max - self.ra_min > 360:
            raise RegionError(
                f"ra {self.ra_min:g} to {self.ra_max:g} is more than the whole circle; give 0 to 360"
            )

    def __str__(self) -> str:
        ra_min, ra_max, dec_min, dec_max = map(written, vars(self).values())
        return f"box ra {ra_min}..{ra_max} dec {dec_min}..{dec_max}"

    def cover(self) -> Cover:
        if self._full_circle and self.dec_min == -90 and self.dec_max == 90:
            return Cover(Intervals.whole_sky(), Intervals.whole_sky())
        return cover_of(self)

    def contains(self, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.bool_]:
        lon, lat = np.asarray(ra, np.float64), np.asarray(dec, np.float64)
        between = (self.dec_min <= lat) & (lat <= self.dec_max)
        return np.asarray(between & (self._has_ra(lon) | (np.abs(lat) == 90)))

    def border(self, points: Vectors) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        lon = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
        lat = np.degrees(np.arctan2(points[:, 2], np.hypot(points[:, 0], points[:, 1])))
        distance = np.full(len(points), np.inf)
        poles = {-90.0, 90.0} if self.dec_min < self.dec_max else set()  # around a pole there is no border
        for dec in {self.dec_min, self.dec_max} - poles:
            # Beside the box, the nearest point of a parallel is an end of it, and so of a meridian.
            along = np.where(self._has_ra(lon), np.radians(np.abs(lat - dec)), np.inf)
            distance = np.minimum(distance, along)
        if not self._full_circle:
            for ra in {self.ra_min, self.ra_max}:
                distance = np.minimum(distance, self._from_meridian(points, ra))
        return distance, self.contains(lon, lat)

    @property
    def _full_circle(self) -> bool:
        return self.ra_max - self.ra_min == 360

    def _has_ra(self, ra: NDArray[np.float64]) -> NDArray[np.bool_]:
        if self._full_circle:
            return np.ones(np.shape(ra), bool)
        first, last, lon = (_in_one_turn(values) for values in (self.ra_min, self.ra_max, ra))
        if first <= last:
            return np.asarray((first <= lon) & (lon <= last))
        return np.asarray((first <= lon) | (lon <= last))

    def _from_meridian(self, points: Vectors, ra: float) -> NDArray[np.float64]:
        """Distances from the part of a meridian that is a side, in radians."""
        lon = np.radians(ra)
        towards = points[:, 0] * np.cos(lon) + points[:, 1] * np.sin(lon)
        beside = points[:, 1] * np.cos(lon) - points[:, 0] * np.sin(lon)
        foot = np.degrees(np.arctan2(points[:, 2], towards))
        facing = (self.dec_min <= foot) & (foot <= self.dec_max)
        ends = (angles(points, unit_vectors(ra, dec)) for dec in (self.dec_min, self.dec_max))
        across = np.arctan2(np.abs(beside), np.hypot(points[:, 2], towards))
        return np.minimum(np.where(facing, across, np.inf), np.minimum(*ends))


def _in_one_turn(ra: ArrayLike) -> NDArray[np.float64]:
    """Right ascensions in [0, 360); what is so already stays exactly as it is."""
    turned = np.remainder(ra, 360.0)
    return np.where(turned == 360.0, 0.0, turned)  # of a tiny negative number, the remainder is rounded up
