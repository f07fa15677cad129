"""Right rows of a cross-match that no left row matches, stretch of the curve by stretch.

Whether a right row is matched depends on left rows around it, and whether those take it depends on the right
rows around them. So a stretch is matched once more with what lies about it: left rows within the reach of the
match, and right rows within twice that, all read from the leaves in which they live. No margin takes part:
there a row stands many times, and here each right row has to come once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.catalog.joining.sides import Side
from hipslake.catalog.joining.stretches import StretchPlan
from hipslake.catalog.selection import RegionCut
from hipslake.errors import VerificationError
from hipslake.joins.best_pairs import best_pairs
from hipslake.joins.matching import match, match_limits
from hipslake.joins.tree_alignment import overlaps
from hipslake.specs.join_specs import MatchOptions
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import surroundings
from hipslake.sphere.pixels import HEALPIX_COLUMN


@dataclass(frozen=True)
class UnmatchedRows:
    """Finds right rows without a match.

    Attributes
    ----------
    left, right : Side
    options : MatchOptions
    radius_arcsec : float
        The largest separation that two rows may have.
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs.
    cut : RegionCut or None
        Only right rows in it, by the position columns of the right side; None: all.
    """

    left: Side
    right: Side
    options: MatchOptions
    radius_arcsec: float
    reach_arcsec: float
    cut: RegionCut | None

    def within(self, start: int, stop: int, only: Intervals | None = None) -> pa.Table:
        """Those in [start, stop), order-29 pixels, along the curve, with all columns that the side reads.

        Parameters
        ----------
        start, stop : int
        only : Intervals, optional
            Rows elsewhere are not there for the match; all right rows in [start, stop) lie inside.
        """
        rows = self.right.stretches.read(start, stop)
        if rows.num_rows:
            rows = rows.filter(pa.array(~self._matched(start, stop, rows.num_rows, only)))
        if self.cut is not None and rows.num_rows:
            rows = self.cut.inside(rows)
        return rows.combine_chunks()

    def _matched(self, start: int, stop: int, number: int, only: Intervals | None) -> np.ndarray:
        """Which of the right rows in [start, stop) match, bool[number]."""
        around = [surroundings(start, stop, times * self.reach_arcsec) for times in (1.0, 2.0)]
        if only is not None:
            around = [each.common(only) for each in around]
        here = self.left.places.near(around[0])
        if not here.num_rows:
            return np.zeros(number, bool)
        there = self.right.places.near(around[1])
        taken = np.zeros(there.num_rows, bool)
        sides = self.left.positions(here), self.right.positions(there)
        limits = match_limits(self.options, self.radius_arcsec)
        if self.options.one_to_one is not None:
            taken[best_pairs(*sides, self.options.one_to_one, limits)[1]] = True
        else:
            for _, found in match(*sides, **limits, neighbours=self.options.most):
                taken[found.right] = True
        first, last = np.searchsorted(there[HEALPIX_COLUMN].to_numpy(), [start, stop]).tolist()
        if last - first != number:
            raise VerificationError(
                f"{self.right.storage.uri()}: two reads of the same leaves gave {number} rows and "
                f"{last - first}; Catalog.verify() tells more"
            )
        return taken[first:last]


def beside(left: StretchPlan, right: StretchPlan) -> StretchPlan:
    """The stretches in which either side has rows, cut where one of either begins or ends.

    `rows` are those of both sides, about.
    """
    bounds = np.unique(np.concatenate([left.start, left.stop, right.start, right.stop]))
    start, stop = bounds[:-1], bounds[1:]
    rows = np.zeros(len(start))
    for side in (left, right):
        piece, whole = overlaps((start, stop), (side.start, side.stop))
        share = (stop - start)[piece] / (side.stop - side.start)[whole]
        rows[piece] += np.maximum(side.rows[whole] * share, 1.0)
    filled = rows > 0
    return StretchPlan(start[filled], stop[filled], rows[filled].astype(np.int64))
