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

    def within(self, start: int, stop: int, number: int, only: Intervals | None = None) -> NDArray[np.bool_]:
        """Which of the left rows in [start, stop), order-29 pixels, keep it: bool[number].

        Parameters
        ----------
        start, stop, number : int
        only : Intervals, optional
            Rows elsewhere are not there for the match; [start, stop) lies inside.
        """
        which = self.options.one_to_one
        if which is None or not number:
            return np.ones(number, bool)
        around = [surroundings(start, stop, times * self.reach_arcsec) for times in (2.0, MOST_REACHES)]
        if only is not None:
            around = [each.common(only) for each in around]
        here, there = self.left.places.inside(around[0]), self.right.places.inside(around[1])
        sides = self.left.positions(here), self.right.positions(there)
        kept = np.zeros(here.num_rows, bool)
        kept[best_pairs(*sides, which, match_limits(self.options, self.radius_arcsec))[0]] = True
        first, last = np.searchsorted(here[HEALPIX_COLUMN].to_numpy(), [start, stop]).tolist()
        if last - first != number:
            raise VerificationError(
                f"{self.left.storage.uri()}: two reads of the same leaves gave {number} rows and "
                f"{last - first}; Catalog.verify() tells more"
            )
        return kept[first:last]
