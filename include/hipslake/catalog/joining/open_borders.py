"""Left rows of a cross-match that may lack partners, where the right side has no margin.

Without one, two rows match only where the leaf of the right row is the pixel that the left row lies in. So a
left row may lack partners if the reach of the match leads from it into another right leaf. Of pairs that are
one to one, what a row has also depends on what others have, at most twice the reach farther off: those rows
count too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hipslake.catalog.joining.sides import Side
from hipslake.catalog.joining.stretches import Stretches
from hipslake.catalog.partitions import pixels_in
from hipslake.catalog.selection import RegionCut
from hipslake.errors import SpecError
from hipslake.joins.best_pairs import OneToOne
from hipslake.specs.margin_spec import MAX_ARCSEC
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.margin_geometry import margin_pairs, tiles_near
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN

_SLACK = 1e-5  # arcseconds: more than the distances from borders are wrong by

_REACHES: dict[OneToOne | None, float] = {None: 1.0, "mutual": 2.0, "best": 3.0}
"""From how far off a border changes what a row has.

A row keeps its nearest, unless another has that one: a reach to the partner, and one from there to the other
row, which may lie in another pixel (`mutual`), or have this partner only because its own nearest is a reach
farther, in another leaf (`best`). The score of the other row, too, may depend on candidates a reach farther.
"""


@dataclass(frozen=True)
class RightBorders:
    """The borders of the leaves of a right side without a margin, and the left rows near them.

    Attributes
    ----------
    left, right : Side
    reach_arcsec : float
        How far apart rows that match may stand in their catalogs.
    one_to_one : {"best", "mutual"} or None
        Which pairs there are where no row has more than one.
    scored : bool
        Whether pairs have scores, which may depend on all candidates of their left row.
    """

    left: Side
    right: Side
    reach_arcsec: float
    one_to_one: OneToOne | None = None
    scored: bool = False

    def near(
        self, h29: NDArray[np.int64], ra: NDArray[np.float64], dec: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Which rows may lack partners, bool[n].

        Parameters
        ----------
        h29 : int64[n]
            `_healpix_29`.
        ra, dec : float64[n]
            ICRS degrees.
        """
        found = np.zeros(len(h29), bool)
        if not len(h29):
            return found
        pairs = margin_pairs(self._tiles, h29, ra, dec, self._reach)
        counts = self._is_leaf[pairs.tile]
        if self.one_to_one is not None:  # left rows where the right side has no leaf have partners in one
            counts = counts | self._is_leaf[self._tiles.find(h29[pairs.row])]
        found[pairs.row[counts]] = True
        return found

    @cached_property
    def reached(self) -> Intervals:
        """Where left rows may have partners, or lack them: order-29 pixels, and maybe others."""
        leaves = self._tiles.select(self._is_leaf)
        near = tiles_near(self._tiles, leaves.order, leaves.npix, self._reach)
        return Intervals.union(self._tiles.start[near], self._tiles.stop[near])

    @property
    def _reach(self) -> float:
        one_to_one = "best" if self.one_to_one == "mutual" and self.scored else self.one_to_one
        return _REACHES[one_to_one] * self.reach_arcsec + _SLACK

    @cached_property
    def _tiles(self) -> PixelTree:
        """The right leaves, and the coarsest pixels between them."""
        return PixelTree(*pixels_in(self.right.metadata.group().pixels)).tiling()

    @cached_property
    def _is_leaf(self) -> NDArray[np.bool_]:
        leaves = PixelTree(*pixels_in(self.right.metadata.group().pixels))
        return leaves.find(self._tiles.start) >= 0


@dataclass(frozen=True)
class OpenBorders:
    """Counts left rows that may lack partners.

    Attributes
    ----------
    rights : tuple of RightBorders
        Of every right side that has no margin; at least one.
    cut : RegionCut or None
        Only left rows in it; None: all.
    """

    rights: tuple[RightBorders, ...]
    cut: RegionCut | None = None

    def told(self, rows: int) -> str:
        """What is to be known of an outcome of which so many left rows may lack partners."""
        lacking = " and ".join(
            f"catalog {each.right.metadata.catalog} has no margin of {each.reach_arcsec:.6g} arcsec, and is "
            "matched without one"
            for each in self.rights
        )
        left, whose = self._left.metadata.catalog, "its" if len(self.rights) == 1 else "their"
        return (
            f"{lacking}: {rows} rows of {left} lie so near to borders of {whose} leaves that they may lack "
            "partners"
        )

    def count(self, start: int, stop: int) -> int:
        """How many of the left rows in [start, stop), order-29 pixels, may lack partners.

        Rows are counted by where they stand: whether there is a partner over the border is not looked at. No
        row that lacks one is left out, and none is counted twice.
        """
        rows = self._places.read(start, stop)
        if self.cut is not None and rows.num_rows:
            rows = self.cut.inside(rows)
        return int(self.near(rows[HEALPIX_COLUMN].to_numpy(), *self._left.degrees(rows)).sum())

    def near(
        self, h29: NDArray[np.int64], ra: NDArray[np.float64], dec: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Which rows may lack partners in any right side; as `RightBorders.near`."""
        return np.logical_or.reduce([each.near(h29, ra, dec) for each in self.rights])

    @property
    def _left(self) -> Side:
        return self.rights[0].left

    @cached_property
    def _places(self) -> Stretches:
        """Reads where left rows stand, of those that pass the filter."""
        place = self._left.position
        return Stretches(self._left.storage, self._left.metadata, [place.ra, place.dec], self._left.filter)


def check_reach(arcsec: float) -> None:
    """Raise `SpecError` if rows match from farther off than is looked for borders."""
    if arcsec > MAX_ARCSEC:
        raise SpecError(
            f"missing_margin: rows that match may stand {arcsec:.6g} arcsec apart, and without a margin "
            f"{MAX_ARCSEC:g} (10 degrees) are the most; match rows that move less, or a smaller radius"
        )
