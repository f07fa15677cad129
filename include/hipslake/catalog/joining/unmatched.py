"""Right rows of a cross-match that no left row matches, stretch of the curve by stretch.

Whether a right row is matched depends on left rows around it, and whether those take it depends on the right
rows around them. So a stretch is matched once more with what lies about it: left rows within the reach of the
match, and right rows within twice that, all read from the leaves in which they live. No margin takes part:
there a row stands many times, and here each right row has to come once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from hipslake.catalog.joining.sides import Side
from hipslake.catalog.joining.stretches import Stretches, StretchPlan
from hipslake.catalog.reading import read_parts
from hipslake.catalog.selection import RegionCut
from hipslake.errors import VerificationError
from hipslake.joins.matching import match
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
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs.
    cut : RegionCut or None
        Only right rows in it, by the position columns of the right side; None: all.
    """

    left: Side
    right: Side
    options: MatchOptions
    reach_arcsec: float
    cut: RegionCut | None

    def within(self, start: int, stop: int) -> pa.Table:
        """Those in [start, stop), order-29 pixels, along the curve, with all columns that the side reads."""
        rows = self.right.stretches.read(start, stop)
        rows = rows.filter(pa.array(~self._matched(start, stop, rows.num_rows))) if rows.num_rows else rows
        if self.cut is not None and rows.num_rows:
            keys = rows[HEALPIX_COLUMN].to_numpy()
            rows = rows.filter(pa.array(self.cut.keeps(keys, rows[self.cut.ra], rows[self.cut.dec])))
        return rows.combine_chunks()

    def _matched(self, start: int, stop: int, number: int) -> np.ndarray:
        """Which of the right rows in [start, stop) match, bool[number]."""
        here = _rows_in(self._left_places, surroundings(start, stop, self.reach_arcsec))
        if not here.num_rows:
            return np.zeros(number, bool)
        there = _rows_in(self._right_places, surroundings(start, stop, 2.0 * self.reach_arcsec))
        taken = np.zeros(there.num_rows, bool)
        for _, found in match(
            self.left.positions(here),
            self.right.positions(there),
            radius_arcsec=self.options.radius_arcsec,
            min_radius_arcsec=self.options.min_radius_arcsec,
            neighbours=self.options.most,
        ):
            taken[found.right] = True
        first, last = np.searchsorted(there[HEALPIX_COLUMN].to_numpy(), [start, stop]).tolist()
        if last - first != number:
            raise VerificationError(
                f"{self.right.storage.uri()}: two reads of the same leaves gave {number} rows and "
                f"{last - first}; Catalog.verify() tells more"
            )
        return taken[first:last]

    @cached_property
    def _left_places(self) -> Stretches:
        return Stretches(self.left.storage, self.left.metadata, self.left.placing, self.left.filter)

    @cached_property
    def _right_places(self) -> Stretches:
        return Stretches(self.right.storage, self.right.metadata, self.right.placing, self.right.filter)


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


def _rows_in(side: Stretches, inside: Intervals) -> pa.Table:
    """The rows in some stretches, along the curve."""
    tables = list(read_parts(side.storage, side.metadata, side.selection, inside))
    return pa.concat_tables([side.schema.empty_table(), *tables]).combine_chunks()
