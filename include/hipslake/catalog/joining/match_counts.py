"""How many rows a cross-match has, and how far apart its pairs are, without the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.joining.pairing import Pairing
from hipslake.errors import SpecError
from hipslake.joins.pair_counts import pair_counts
from hipslake.specs.join_specs import MatchOptions


class MatchCounts(NamedTuple):
    """What a cross-match has, counted.

    Attributes
    ----------
    rows : int
        Of the outcome.
    separations : int64[bins] or None
        How many of these rows have a separation in each bin; None: no bins were asked for.
    rows_near_borders : int or None
        Rows of the left catalog that may lack partners, as a right one has no margin; None: every pair was
        found.
    """

    rows: int
    separations: NDArray[np.int64] | None = None
    rows_near_borders: int | None = None

    @classmethod
    def together(cls, several: Sequence[MatchCounts]) -> MatchCounts:
        """The counts of several stretches; at least one."""
        binned = [each.separations for each in several if each.separations is not None]
        lacking = [each.rows_near_borders for each in several if each.rows_near_borders is not None]
        return cls(
            sum(each.rows for each in several),
            np.sum(binned, axis=0, dtype=np.int64) if binned else None,
            sum(lacking) if lacking else None,
        )


def all_pairs_count(pairing: Pairing) -> bool:
    """Whether the outcome has a row for each pair within the radius, and no other one."""
    options = pairing.options
    plain = options.radius is None and options.score is None
    return plain and options.neighbours == "all" and options.how == "inner"


def count_pairs(
    pairing: Pairing, rows: pa.Table, stretch: tuple[int, int], edges: NDArray[np.float64] | None
) -> MatchCounts:
    """Count all pairs of left rows in a stretch, which are not listed for that.

    Parameters
    ----------
    pairing : Pairing
    rows : pyarrow.Table
        The left rows, along the curve, with all that `Side.needed` names.
    stretch : (int, int)
        Order-29 pixels, [start, stop).
    edges : float64[bins + 1] or None
        Of bins of the separations, in arcseconds.
    """
    pairs, histogram = 0, None if edges is None else np.zeros(len(edges) - 1, np.int64)
    for mine, _, near_by in pairing.with_near_rows(rows, stretch):
        found = pair_counts(
            pairing.left.positions(mine),
            near_by.positions,
            radius_arcsec=pairing.radius_arcsec,
            min_radius_arcsec=pairing.options.min_radius_arcsec,
            edges=edges,
        )
        pairs += found.pairs
        if histogram is not None and found.histogram is not None:
            histogram += found.histogram
    return MatchCounts(pairs, histogram)


def bin_edges(given: Any, options: MatchOptions) -> NDArray[np.float64]:
    """The edges of bins of separations, float64[bins + 1].

    Parameters
    ----------
    given : sequence of float
        Arcseconds, as for `numpy.histogram`: a bin holds its lower edge, the last one the upper edge too.
    options : MatchOptions
        How the first right catalog is matched.

    Raises
    ------
    SpecError
        They are no such edges, or the outcome has no separations.
    """
    if options.how == "anti":
        raise SpecError(
            "separation_bins: an anti-match has rows without a partner, and so no separations; leave them out"
        )
    try:
        edges = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        edges = np.empty(0)
    if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all() or (np.diff(edges) <= 0.0).any():
        raise SpecError(
            f"separation_bins: {given!r} are no edges of bins; give two or more numbers that ascend, in "
            "arcseconds, such as [0, 0.5, 1]"
        )
    return edges
