"""Pairs of two sides of which each row has at most one: one to one."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hipslake.joins.matching import MatchLimits, match
from hipslake.joins.pair_grid import SkyPositions

OneToOne = Literal["best", "mutual"]


def best_pairs(
    left: SkyPositions, right: SkyPositions, which: OneToOne, limits: MatchLimits
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs that are one to one.

    Parameters
    ----------
    left, right : SkyPositions
    which : {"best", "mutual"}
        `best`: each left row with its nearest right row; where several left rows have the same one, the
        nearest of them. `mutual`: rows of which each is the nearest to the other. What is mutual is best.
        Of rows that are equally near, the earlier one is the nearer.
    limits : MatchLimits

    Returns
    -------
    left, right : int64[m]
        Places of the rows, by right row.

    Examples
    --------
    Two left rows at 0 and 2 arcseconds, two right rows at 1.2 and -2: the second right row is the nearest of
    no left row.

    >>> sides = ((0.0, 2.0), (1.2, -2.0))
    >>> none = np.zeros(2, np.int64)
    >>> left, right = (SkyPositions(np.array(side) / 3600, np.zeros(2), none) for side in sides)
    >>> limits = MatchLimits(radius_arcsec=3.0, min_radius_arcsec=0.0, errors=None, score=None)
    >>> [side.tolist() for side in best_pairs(left, right, "best", limits)]
    [[1], [0]]
    """
    mine, theirs, nearness = _pairs(left, right, limits, 1)
    if which == "mutual":
        if limits["score"] is None:
            theirs_back, mine_back, _ = _pairs(right, left, limits, 1)
        else:  # which knows a left side and a right one
            mine_back, theirs_back, near = _pairs(left, right, limits, None)
            along = np.lexsort((-mine_back, -near))  # of each right row, the nearest is the last
            theirs_back, mine_back = theirs_back[along], mine_back[along]
        favourite = np.full(len(right), -1)
        favourite[theirs_back] = mine_back
        both = favourite[theirs] == mine
        mine, theirs, nearness = mine[both], theirs[both], nearness[both]
    along = np.lexsort((mine, nearness, theirs))
    mine, theirs = mine[along], theirs[along]
    first = np.append(True, theirs[1:] != theirs[:-1])[: len(theirs)]
    return mine[first], theirs[first]


def _pairs(
    left: SkyPositions, right: SkyPositions, limits: MatchLimits, neighbours: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    parts = [matches for _, matches in match(left, right, **limits, neighbours=neighbours)]
    none = np.empty(0, np.int64)
    return (
        np.concatenate([none, *(part.left for part in parts)]),
        np.concatenate([none, *(part.right for part in parts)]),
        np.concatenate([np.empty(0), *(part.nearness for part in parts)]),
    )
