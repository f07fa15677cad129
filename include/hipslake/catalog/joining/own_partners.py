"""Left rows of a cross-match one to one: which have their nearest right row for their own.

Whether a left row keeps its nearest right row depends on the other left rows around that, and whether those
want it on the right rows around them. So a stretch is matched once more with what lies about it: left rows
within twice the reach of the match, and right rows within three times that, all read from the leaves in which
they live.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipslake.catalog.joining.sides import Side
from hipslake.errors import VerificationError
from hipslake.joins.best_pairs import best_pairs
from hipslake.joins.matching import match_limits
from hipslake.specs.join_specs import MatchOptions
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import surroundings
from hipslake.sphere.pixels import HEALPIX_COLUMN

MOST_REACHES = 3.0
"""How many reaches off a row may stand that decides what another one has."""


@dataclass(frozen=True)
class OwnPartners:
    """Finds left rows that keep their nearest right row.

    Attributes
    ----------
    left, right : Side
    options : MatchOptions
        Of pairs that are one to one.
    radius_arcsec : float
        The largest separation that two rows may have.
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs.
    """

    left: Side
    right: Side
    options: MatchOptions
    radius_arcsec: float
    reach_arcsec: float

    def among(
        self, h29: NDArray[np.int64], stretch: tuple[int, int], only: Intervals | None = None
    ) -> NDArray[np.bool_]:
        """Which of some left rows keep it, bool[n].

        Parameters
        ----------
        h29 : int64[n]
            `_healpix_29` of left rows in the stretch, ascending, each with all rows of its order-29 pixel.
        stretch : (int, int)
            Order-29 pixels, [start, stop).
        only : Intervals, optional
            Rows elsewhere are not there for the match; left rows there keep nothing.
        """
        if self.options.one_to_one is None or not len(h29):
            return np.ones(len(h29), bool)
        keys, kept = self._kept(*stretch, only)
        asked = np.ones(len(h29), bool) if only is None else only.hold(h29)
        found, mine = np.zeros(len(h29), bool), h29[asked]
        at = np.searchsorted(keys, mine) + np.arange(len(mine)) - np.searchsorted(mine, mine)
        there = at < len(keys)
        held = int((keys[at[there]] == mine[there]).sum())
        if held != len(mine):
            raise VerificationError(
                f"{self.left.storage.uri()}: two reads of the same leaves gave {len(mine)} rows and {held}; "
                "Catalog.verify() tells more"
            )
        found[asked] = kept[at]
        return found

    def _kept(
        self, start: int, stop: int, only: Intervals | None
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Left rows in [start, stop) and around it: `_healpix_29`, and whether each keeps its nearest."""
        which = self.options.one_to_one
        assert which is not None
        around = [surroundings(start, stop, times * self.reach_arcsec) for times in (2.0, MOST_REACHES)]
        if only is not None:
            around = [each.common(only) for each in around]
        here, there = self.left.places.near(around[0]), self.right.places.near(around[1])
        sides = self.left.positions(here), self.right.positions(there)
        kept = np.zeros(here.num_rows, bool)
        kept[best_pairs(*sides, which, match_limits(self.options, self.radius_arcsec))[0]] = True
        return here[HEALPIX_COLUMN].to_numpy(), kept
