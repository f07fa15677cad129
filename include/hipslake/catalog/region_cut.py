"""The exact cut of a region, by the position columns of a catalog. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.metadata import Position
from hipslake.sphere.coordinates import positions, to_icrs_degrees
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.regions import Cover, Region


@dataclass(frozen=True)
class RegionCut:
    """Which rows of a catalog lie in a region.

    Attributes
    ----------
    region : Region
    ra, dec : str
        The position columns: those of ICRS degrees where the catalog has them, else those that the rows were
        placed by.
    unit, frame : str
        Of these columns.
    """

    region: Region
    ra: str
    dec: str
    unit: str
    frame: str

    @classmethod
    def of(cls, region: Region, position: Position) -> RegionCut:
        """The cut by a catalog's positions."""
        if position.icrs_ra is not None and position.icrs_dec is not None:
            return cls(region, position.icrs_ra, position.icrs_dec, "deg", "icrs")
        return cls(region, position.ra, position.dec, position.unit, position.frame)

    @cached_property
    def cover(self) -> Cover:
        """The pixels that hold the region."""
        return self.region.cover()

    def is_sure_of(self, pixels: Intervals) -> bool:
        """Whether every row in some pixels lies in the region, so that no row need be looked at."""
        if not len(pixels):
            return True
        near = self.cover.certain.within(int(pixels.start[0]), int(pixels.stop[-1]))
        return pixels.common(near) == pixels

    def keeps(
        self, h29: NDArray[np.int64], ra: pa.Array | pa.ChunkedArray, dec: pa.Array | pa.ChunkedArray
    ) -> NDArray[np.bool_]:
        """Which rows lie in the region, bool[n].

        Parameters
        ----------
        h29 : int64[n]
            Their `_healpix_29`. Only rows where the cover is not certain are held against the region.
        ra, dec : pyarrow arrays of n numbers
            Of the position columns.
        """
        kept = self.cover.certain.hold(h29)
        doubtful = ~kept
        lon, lat = positions(ra.filter(pa.array(doubtful)), dec.filter(pa.array(doubtful)))
        kept[doubtful] = self.region.contains(*to_icrs_degrees(lon, lat, unit=self.unit, frame=self.frame))
        return kept
