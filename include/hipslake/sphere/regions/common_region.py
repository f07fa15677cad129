"""What several regions have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.sphere.intervals import Intervals
from hipslake.sphere.regions.region import Cover, Region


@dataclass(frozen=True)
class CommonRegion:
    """The intersection of regions. Its text is for people only: no text gives an intersection back.

    Parameters
    ----------
    regions : tuple of Region
        At least one.
    """

    regions: tuple[Region, ...]

    def __str__(self) -> str:
        return " within ".join(map(str, self.regions))

    def cover(self) -> Cover:
        covers = [region.cover() for region in self.regions]
        return Cover(
            reduce(Intervals.common, (cover.intervals for cover in covers)),
            reduce(Intervals.common, (cover.certain for cover in covers)),
        )

    def contains(self, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.logical_and.reduce(
            [region.contains(ra, dec) for region in self.regions]
        )
        return found
