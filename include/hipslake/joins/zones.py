"""Rows near others, found in zones of declination whose rows are sorted by right ascension.

For a row and a zone, all rows of the zone within a radius lie in one range of right ascensions, which binary
searches find; in thin zones, few others lie there. A narrower range holds rows that are surely within the
radius. So it serves where a radius holds several rows: where it holds less than one, the cells of
`hipslake.joins.pair_grid` take fewer searches.

Source: Gray, Nieto-Santisteban and Szalay 2006, "The Zones Algorithm for Finding Points-Near-a-Point or
Cross-Matching Spatial Datasets", MSR-TR-2006-52.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.pair_grid import SkyPositions

LEAST_HEIGHT = np.pi / (1 << 27)
"""Of zones, in radians: 5 mas."""

_TURN = 1 << 34  # right ascensions are whole numbers of so many parts of a turn, less than a tenth of a mas
_SLACK = 1e-12  # radians, and of each radian as much: more than rounding makes of angles
_SLACK_PARTS = 2.0  # of a turn: the same, and what whole numbers leave off
_LOOKUPS = 1 << 15  # rows and zones at once: what is worked out of them stays in the caches of a core
_FEW = 8.0  # rows of a range on average: to look at them all is less than to search which are near for sure

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ranges(NamedTuple):
    """Ranges of rows of one side, each for a row of the other side.

    Attributes
    ----------
    probe : int64[m]
        The row of the other side; several ranges are of the same one, but no row is in two of them.
    first, stop : int64[m]
        The range [first, stop) of rows that may be within the radius of it.
    sure_first, sure_stop : int64[m]
        A range within that one, of rows that surely are. It may be empty.
    """

    probe: Int64s
    first: Int64s
    stop: Int64s
    sure_first: Int64s
    sure_stop: Int64s


class Zones:
    """The rows of a side in zones of declination.

    Parameters
    ----------
    side : SkyPositions
        Of which only the positions count.
    height : float
        Of a zone, in radians; at least `LEAST_HEIGHT` is taken.

    Attributes
    ----------
    order : int64[n]
        The places of its rows zone by zone, and by right ascension in each.
    side : SkyPositions
        Its rows in that order.
    """

    def __init__(self, side: SkyPositions, height: float) -> None:
        self._height = max(height, LEAST_HEIGHT)
        keys = self._keys(side)
        self.order: Int64s = np.argsort(keys, kind="stable")
        self._along = keys[self.order]
        self.side = side.take(self.order)

    def order_of(self, others: SkyPositions) -> Int64s:
        """The places of another side's rows in such an order: each is looked up near the one before."""
        return np.argsort(self._keys(others), kind="stable")

    def near(
        self, others: SkyPositions, radius: float, *, sure: bool = True
    ) -> Iterator[tuple[SkyPositions, Ranges]]:
        """Find the rows within a radius of others.

        Parameters
        ----------
        others : SkyPositions
            In any order, but fastest in that of `order_of`.
        radius : float
            Radians, at most a quarter of a turn.
        sure : bool, optional
            Whether to look for rows that are surely within.

        Yields
        ------
        SkyPositions, Ranges
            Some of the others, each of them once in all, and the ranges of rows that are near them.
        """
        at_once = max(1, int(_LOOKUPS / (2.0 * radius / self._height + 2.0)))
        for start in range(0, len(others), at_once):
            some = others.take(slice(start, start + at_once))
            yield some, self._near(some, radius, sure=sure)

    def _keys(self, side: SkyPositions) -> Int64s:
        """What rows are sorted by: the zone, and the right ascension in it."""
        return self._zones(np.radians(side.dec)) * _TURN + _parts(side.ra).astype(np.int64)

    def _zones(self, dec: Floats) -> Int64s:
        """The numbers of zones; 0 is the southernmost that holds rows."""
        return np.floor((dec + np.pi / 2.0) / self._height).astype(np.int64) + 1

    def _near(self, probes: SkyPositions, radius: float, *, sure: bool) -> Ranges:
        most, least = radius + _SLACK * (1.0 + radius), radius - _SLACK * (1.0 + radius)
        ra, dec = _parts(probes.ra), np.radians(probes.dec)
        lowest = self._zones(dec - most)
        several = int((self._zones(dec + most) - lowest).max(initial=0)) + 1
        zone = lowest + np.arange(several)[:, None]  # of each probe, int64[zones, probes]
        low = (zone - 1) * self._height - np.pi / 2.0 - _SLACK
        high = low + self._height + 2.0 * _SLACK
        reached, probe = np.nonzero((low <= dec + most) & (high >= dec - most))
        zone, low, high = zone[reached, probe], low[reached, probe], high[reached, probe]
        ra, dec = ra[probe], dec[probe]
        nearest = np.maximum(np.maximum(low - dec, dec - high), 0.0)  # that a row of the zone may be
        smaller = np.cos(np.minimum(np.maximum(np.abs(low), np.abs(high)), np.abs(dec) + most))
        width = _half_width(most, nearest, np.cos(dec) * smaller) + _SLACK_PARTS
        # Around a pole: a whole turn that is cut opposite of the row.
        whole, half, near = 2.0 * width >= _TURN, _TURN // 2, np.floor(ra)
        begin = np.where(whole, near - half, np.floor(ra - width)).astype(np.int64)
        end = np.where(whole, near + half, np.ceil(ra + width)).astype(np.int64)
        # What lies beyond the end of a turn is at its beginning, and the other way round.
        around = np.flatnonzero((begin < 0) | (end > _TURN))
        turned = np.concatenate([np.zeros(len(probe), np.int64), np.where(begin < 0, _TURN, -_TURN)[around]])
        entry = np.concatenate([np.arange(len(probe)), around])
        keys = zone[entry] * _TURN

        def at(right_ascension: Int64s) -> Int64s:
            """The first row of an entry's zone from there on."""
            found: Int64s = np.searchsorted(
                self._along, keys + np.clip(right_ascension[entry] + turned, 0, _TURN)
            )
            return found

        first, stop = at(begin), at(end)
        sure_first = sure_stop = stop
        if sure and least > 0.0 and (stop - first).sum() > _FEW * len(first):
            farthest = np.maximum(high - dec, dec - low)
            larger = np.cos(np.where(low * high < 0.0, 0.0, np.minimum(np.abs(low), np.abs(high))))
            width = _half_width(least, farthest, np.cos(dec) * larger) - _SLACK_PARTS
            begin, end = np.ceil(ra - width).astype(np.int64), np.floor(ra + width).astype(np.int64)
            holds = (end > begin)[entry]
            sure_first, sure_stop = np.where(holds, at(begin), stop), np.where(holds, at(end), stop)
        return Ranges(probe[entry], first, stop, sure_first, sure_stop)


def _parts(ra: Floats) -> Floats:
    """Right ascensions of degrees in parts of a turn, in [0, `_TURN`)."""
    found: Floats = np.minimum(ra % 360.0 * (_TURN / 360.0), np.nextafter(float(_TURN), 0.0))
    return found


def _half_width(radius: float, away: Floats, cosines: Floats) -> Floats:
    """The largest difference in right ascension, in parts of a turn, of positions within a radius.

    By the haversine formula; at most half a turn, and negative where there are none.

    Parameters
    ----------
    radius : float
        Radians.
    away : float64[n]
        Their difference in declination, radians.
    cosines : float64[n]
        The product of the cosines of both declinations.
    """
    room = np.sin(radius / 2.0) ** 2 - np.sin(np.minimum(away, np.pi) / 2.0) ** 2
    share = np.clip(room / np.maximum(cosines, 1e-300), 0.0, 1.0)
    return np.where(room < 0.0, -_TURN, np.arcsin(np.sqrt(share)) * (_TURN / np.pi))
