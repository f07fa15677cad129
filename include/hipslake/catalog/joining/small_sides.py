"""Small sides of a cross-match: rows so few that every task holds them all, and no margin is asked for.

Where the right side is small, a stretch of the left one is matched with those of the held rows that lie
around it. Where the left side is small, its held rows say which row groups of the right leaves are read:
those around them, in whatever leaf. Both give the pairs that a margin gives, as all rows within reach are
looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.held_rows import HeldRows
from hipslake.catalog.joining.right_rows import NearRows
from hipslake.catalog.joining.sides import Side
from hipslake.catalog.joining.stretches import row_width
from hipslake.specs.join_specs import SmallSide
from hipslake.specs.margin_spec import MAX_ARCSEC
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import surroundings, widened

MOST_ROWS = 1_000_000
"""Of a side that is small."""
MOST_BYTES = 256 << 20
"""Of what a match needs of such a side, in memory, about."""

_FINEST_CELLS = 18  # their order, 0.8 arcsec: as fine as the reach of most matches


def small_side(left: Side, right: Side, reach_arcsec: float) -> SmallSide | None:
    """Return the side of a match that tasks hold whole: the smaller one, if it is small.

    Parameters
    ----------
    left, right : Side
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs; farther than margins reach, no side is
        small.
    """
    fitting = [("right", right), ("left", left)]
    small = [(side.metadata.total_rows, name) for name, side in fitting if _is_small(side)]
    if not small or reach_arcsec > MAX_ARCSEC:
        return None
    return "right" if min(small, key=lambda each: each[0])[1] == "right" else "left"


def told_of_sides(left: Side, right: Side) -> str:
    """Return what decides which side is small, in words."""
    sizes = [
        f"{name} {side.metadata.total_rows} rows, about {_bytes_of(side) / 2**20:.1f} MiB"
        for name, side in (("left", left), ("right", right))
    ]
    return f"{', '.join(sizes)}; a small side has at most {MOST_ROWS} rows and {MOST_BYTES >> 20} MiB"


def _is_small(side: Side) -> bool:
    return side.metadata.total_rows <= MOST_ROWS and _bytes_of(side) <= MOST_BYTES


def _bytes_of(side: Side) -> int:
    """Bytes in memory of what the match needs, about; of texts and lists at least what the files hold."""
    schema = side.stretches.schema
    numbers = side.metadata.total_rows * row_width(schema)
    if all(pa.types.is_primitive(kind) for kind in schema.types):
        return numbers
    return max(numbers, side.metadata.total_bytes)


def points_widened(h29: NDArray[np.int64], arcsec: float, *, finest: int = _FINEST_CELLS) -> Intervals:
    """Return all that lies within a distance of order-29 pixels (ascending), and maybe more.

    Parameters
    ----------
    h29 : int64[n]
    arcsec : float
        The distance.
    finest : int
        The highest order of the cells by which that is known.
    """
    return widened(Intervals.union(h29, h29 + 1), arcsec, finest=finest)


@dataclass(frozen=True)
class HeldRight:
    """A right side that is held.

    Attributes
    ----------
    side : Side
    held : HeldRows
        Of all that the match needs of it.
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs.
    """

    side: Side
    held: HeldRows
    reach_arcsec: float

    @cached_property
    def reached(self) -> Intervals:
        """Where left rows may have partners, the places of the right rows themselves included."""
        return points_widened(self.held.keys, self.reach_arcsec)

    def near(self, h29: NDArray[np.int64]) -> NearRows:
        """All right rows that may match left rows with such `_healpix_29` (ascending), and maybe others."""
        around = Intervals.together([])
        if len(h29):
            around = surroundings(int(h29[0]), int(h29[-1]) + 1, self.reach_arcsec)
        return _near_rows(self.side, self.held.inside(around))


@dataclass(frozen=True)
class FetchedRight:
    """A right side of which the rows around left ones are read from its leaves.

    Attributes
    ----------
    side : Side
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs.
    """

    side: Side
    reach_arcsec: float

    def near(self, h29: NDArray[np.int64]) -> NearRows:
        """All right rows that may match left rows with such `_healpix_29` (ascending), and maybe others."""
        return _near_rows(self.side, self.side.stretches.near(points_widened(h29, self.reach_arcsec)))


def _near_rows(side: Side, rows: pa.Table) -> NearRows:
    rows = rows.combine_chunks()
    return NearRows(rows, side.positions(rows), side.columns, None)
