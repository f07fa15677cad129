"""Position errors of rows, circles and ellipses: which pairs of rows they allow, and how near these are.

Two ways to combine the errors of both rows of a pair:

- `quadrature`: the errors are standard deviations, and their covariances add up. A pair is allowed where the
  Mahalanobis distance of its positions is at most so many sigmas; of circles that is the separation over
  `sqrt(left**2 + right**2)`.
- `sum`: the errors are regions, and a pair is allowed where the two regions, enlarged so many times, touch or
  overlap. Of circles that is a separation of at most the sum of the radii.

Both are computed in the plane that touches the sky at the pair, with the axes of each ellipse as seen from
its own centre along the great circle to the other. So nothing is special about the poles.

Source of `sum`: the criteria and scores of the matchers `skyerr` and `skyellipse` of STILTS, SUN/256.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.pair_grid import SkyPositions
from hipslake.joins.sky_separations import ARCSEC, position_angle
from hipslake.specs.error_columns import Combination
from hipslake.sphere.array_columns import ArrayColumns

Values = NDArray[np.float64]

_THINNEST = 1e-6  # of an ellipse: the shorter axis over the longer one
_STEPS = 60  # Newton's steps to the nearest point of an ellipse; twelve are many


@dataclass(frozen=True)
class ErrorRegions(ArrayColumns):
    """The position errors of rows; NaN where one is not known.

    Attributes
    ----------
    semi_major, semi_minor : float64[n]
        Arcseconds, not negative; equal for circles.
    angle : float64[n]
        Degrees from north over east to the major axis.
    """

    semi_major: NDArray[np.float64]
    semi_minor: NDArray[np.float64]
    angle: NDArray[np.float64]

    @classmethod
    def none(cls, rows: int) -> ErrorRegions:
        """Of rows that stand exactly where they are said to."""
        zero = np.zeros(rows)
        return cls(zero, zero, zero)

    @property
    def largest(self) -> NDArray[np.float64]:
        """The longer semi-axis of each row, arcseconds; NaN where the error is not known."""
        round_ = self.semi_major == self.semi_minor
        known = np.isfinite(self.semi_major + self.semi_minor) & (round_ | np.isfinite(self.angle))
        return np.where(known, np.maximum(self.semi_major, self.semi_minor), np.nan)


@dataclass(frozen=True)
class ErrorRule:
    """How the errors of the two rows of a pair are combined.

    Attributes
    ----------
    combine : {"quadrature", "sum"}
    sigmas : float
    elliptical : bool
        Whether either side has ellipses; else both have circles.
    """

    combine: Combination
    sigmas: float
    elliptical: bool

    def reach(self, left: float, right: float) -> float:
        """How far apart rows may be whose longer semi-axes are at most these, arcseconds.

        Examples
        --------
        >>> ErrorRule("quadrature", 2.0, False).reach(3.0, 4.0), ErrorRule("sum", 2.0, False).reach(3.0, 4.0)
        (10.0, 14.0)
        """
        both = np.hypot(left, right) if self.combine == "quadrature" else left + right
        return float(self.sigmas * both)

    def judge(
        self, left: SkyPositions, right: SkyPositions, separation: NDArray[np.float64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Which pairs are allowed, and how near they are.

        Parameters
        ----------
        left, right : SkyPositions
            The rows of each pair, with errors (a side without any has none).
        separation : float64[m]
            Arcseconds.

        Returns
        -------
        allowed : bool[m]
            False where an error is not known.
        nearness : float64[m]
            The smaller, the nearer. In quadrature: the distance in sigmas. Of a sum of circles: 0 where the
            centres are one, 1 where the circles just touch. Of a sum of ellipses: 0 where the centres are
            one, 1 where one lies on the edge of the other, 2 where the ellipses just touch. The same
            whichever side is the left one.
        """
        here, there = (
            side.errors if side.errors is not None else ErrorRegions.none(len(side)) for side in (left, right)
        )
        if self.elliptical:
            known = np.isfinite(here.largest + there.largest)
            one = _axes(here, position_angle(left, right))
            other = _axes(there, position_angle(right, left))
            if self.combine == "quadrature":
                nearness = _mahalanobis(separation, one, other)
                return known & (nearness <= self.sigmas), nearness
            nearness = _overlap(separation * ARCSEC, one.grown(self.sigmas), other.grown(self.sigmas))
            return known & np.isfinite(nearness), nearness
        if self.combine == "sum":
            radius = self.sigmas * (here.semi_major + there.semi_major)
            return separation <= radius, _share(separation, radius)
        sigma = np.hypot(here.semi_major, there.semi_major)
        return separation <= self.sigmas * sigma, _share(separation, sigma)


def _share(separation: Values, radius: Values) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(separation > 0.0, separation / radius, 0.0)


class _Axes(NamedTuple):
    """Ellipses: semi-axes, and the angle from the great circle to the other to the first axis; radians."""

    a: Values
    b: Values
    along: Values

    def grown(self, times: float) -> _Axes:
        return _Axes(self.a * times, self.b * times, self.along)


def _axes(regions: ErrorRegions, toward: NDArray[np.float64]) -> _Axes:
    a, b = regions.semi_major * ARCSEC, regions.semi_minor * ARCSEC
    least = _THINNEST * np.maximum(a, b)
    angle = np.where(regions.semi_major == regions.semi_minor, 0.0, regions.angle - toward)
    return _Axes(np.maximum(a, least), np.maximum(b, least), np.radians(angle))


def _mahalanobis(separation: Values, one: _Axes, other: _Axes) -> Values:
    """The distance of the centres in sigmas of the sum of both covariances."""
    xx, yy, xy = (np.zeros(len(separation)) for _ in range(3))
    for ellipse in (one, other):
        cos, sin = np.cos(ellipse.along), np.sin(ellipse.along)
        a2, b2 = (ellipse.a / ARCSEC) ** 2, (ellipse.b / ARCSEC) ** 2
        xx += a2 * cos**2 + b2 * sin**2
        yy += a2 * sin**2 + b2 * cos**2
        xy += (a2 - b2) * sin * cos
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = separation * np.sqrt(yy / (xx * yy - xy**2))
        distance = np.where(np.isnan(distance) & ~np.isnan(xx + yy + xy), np.inf, distance)  # of two points
    return np.where(separation > 0.0, distance, 0.0)


def _overlap(apart: Values, one: _Axes, other: _Axes) -> Values:
    """How near ellipses are, 0 to 2; infinite where they do not touch."""
    inside = np.minimum(_scaled(apart, one), _scaled(apart, other))
    nearness = np.where(inside <= 1.0, inside, np.inf)
    reach = np.maximum(one.a, one.b) + np.maximum(other.a, other.b)
    points = (one.a == 0.0) | (other.a == 0.0)
    rest = np.flatnonzero((inside > 1.0) & (apart <= reach) & ~points)
    if len(rest):
        one, other = (_Axes(*(values[rest] for values in ellipse)) for ellipse in (one, other))
        edge, edge_other = _to_the_edge(apart[rest], one, other), _to_the_edge(apart[rest], other, one)
        touching = (edge <= 1.0) & (edge_other <= 1.0)
        nearness[rest] = np.where(touching, 1.0 + 0.5 * (edge + edge_other), np.inf)
    return nearness


def _scaled(apart: Values, ellipse: _Axes) -> Values:
    """The distance of the other centre from this one over that of the edge in its direction."""
    reach = np.sin(apart)
    with np.errstate(divide="ignore", invalid="ignore"):
        along = np.arcsin(np.abs(reach * np.cos(ellipse.along))) / ellipse.a
        across = np.arcsin(np.abs(reach * np.sin(ellipse.along))) / ellipse.b
        return np.where(apart > 0.0, np.hypot(along, across), np.where(np.isnan(ellipse.a), np.nan, 0.0))


def _to_the_edge(apart: Values, one: _Axes, other: _Axes) -> Values:
    """The least distance of the edge of another ellipse from the centre of one, over that of its own edge.

    Where the first is the unit circle, the other is an ellipse too. Of that, the point nearest to the centre
    of the circle is sought in its own axes, as the root of a function that falls and is convex.
    Source: Eberly, "Distance from a Point to an Ellipse" (geometrictools.com), sections 2 and 4.
    """
    # The other is seen from the opposite direction: its axes are the same.
    turn = other.along - one.along
    ax, ay = other.a * np.cos(turn) / one.a, other.a * np.sin(turn) / one.b
    bx, by = -other.b * np.sin(turn) / one.a, other.b * np.cos(turn) / one.b
    x, y = apart * np.cos(one.along) / one.a, -apart * np.sin(one.along) / one.b
    xx, yy, xy = ax**2 + bx**2, ay**2 + by**2, ax * ay + bx * by
    main = 0.5 * np.arctan2(2.0 * xy, xx - yy)
    half, middle = np.hypot(0.5 * (xx - yy), xy), 0.5 * (xx + yy)
    p2 = middle + half
    q2 = ((ax * by - ay * bx) ** 2) / p2  # the determinant, which is not lost in a thin ellipse
    u = np.abs(x * np.cos(main) + y * np.sin(main))
    v = np.abs(y * np.cos(main) - x * np.sin(main))
    p, q = np.sqrt(p2), np.sqrt(q2)
    root = np.maximum(np.maximum(p * u - p2, q * v - q2), 0.0)
    for _ in range(_STEPS):
        first, second = p * u / (root + p2), q * v / (root + q2)
        value = first**2 + second**2 - 1.0
        slope = -2.0 * (first**2 / (root + p2) + second**2 / (root + q2))
        step = np.where(value > 0.0, -value / np.where(slope < 0.0, slope, -1.0), 0.0)
        root = root + step
        if np.all(step <= 1e-14 * root):
            break
    return root * np.hypot(u / (root + p2), v / (root + q2))
