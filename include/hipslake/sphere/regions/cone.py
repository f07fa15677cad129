"""A cone: all that lies within an angle around a position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.sphere.intervals import Intervals
from hipslake.sphere.regions.region import (
    TOLERANCE,
    Cover,
    checked,
    checked_dec,
    checked_ra,
    cover_of,
    written,
)
from hipslake.sphere.vectors import Vectors, angles, unit_vectors


@dataclass(frozen=True)
class Cone:
    """All positions within an angle around one, the border too.

    Parameters
    ----------
    ra, dec : float
        ICRS degrees.
    radius_deg : float
        Degrees, from 0 (the position alone) to 180 (the whole sky).

    Raises
    ------
    RegionError
        A number is out of bounds.

    Examples
    --------
    >>> cone = Cone(56.75, 24.12, radius_deg=3)
    >>> str(cone)
    'cone 56.75 24.12 3deg'
    >>> cone.contains([56.75, 60.5], [27.12, 24.12])
    array([ True, False])
    """

    ra: float
    dec: float
    radius_deg: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "ra", checked_ra(self.ra, what="ra of a cone"))
        object.__setattr__(self, "dec", checked_dec(self.dec, what="dec of a cone"))
        radius = checked(self.radius_deg, 0.0, 180.0, what="the radius of a cone, degrees,")
        object.__setattr__(self, "radius_deg", radius)

    def __str__(self) -> str:
        return f"cone {written(self.ra)} {written(self.dec)} {written(self.radius_deg)}deg"

    def cover(self) -> Cover:
        if self.radius_deg == 180:
            return Cover(Intervals.whole_sky(), Intervals.whole_sky())
        return cover_of(self)

    def contains(self, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.bool_]:
        """Which positions lie in the cone, of their shape; by haversines, which hold at every scale."""
        return np.asarray(self._separations(ra, dec) <= np.radians(self.radius_deg) + TOLERANCE)

    def border(self, points: Vectors) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        radius = np.radians(self.radius_deg)
        away = angles(points, unit_vectors(self.ra, self.dec))
        return np.abs(away - radius), away <= radius

    def _separations(self, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.float64]:
        """Angles from the centre, radians. Differences are taken in degrees, where they are exact."""
        lon, lat = np.asarray(ra, np.float64), np.asarray(dec, np.float64)
        across = np.cos(np.radians(lat)) * np.cos(np.radians(self.dec))
        half_ra = np.radians(lon - self.ra) / 2
        near = np.sin(np.radians(lat - self.dec) / 2) ** 2 + across * np.sin(half_ra) ** 2
        far = np.sin(np.radians(lat + self.dec) / 2) ** 2 + across * np.cos(half_ra) ** 2
        return np.asarray(2 * np.arctan2(np.sqrt(near), np.sqrt(far)))
