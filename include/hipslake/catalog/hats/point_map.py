"""Rows per pixel as a HEALPix FITS map, from which HATS readers take a catalog's coverage.

Format: the `BINTABLE` of the HEALPix primer, IMPLICIT (a value per pixel) or EXPLICIT (occupied ones only).
"""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.errors import CatalogFormatError
from hipslake.specs.hats_spec import FINEST_MAP_ORDER
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import MAX_ORDER

MAP_ORDER = FINEST_MAP_ORDER
"""Readers unfold the map to one value per pixel, which at order 10 takes 100 MB."""


class PointMap(NamedTuple):
    """Rows in the occupied pixels of one order, ascending by pixel."""

    order: int
    npix: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def from_cells(
        cls,
        order: NDArray[np.integer],
        npix: NDArray[np.integer],
        rows: NDArray[np.integer],
        *,
        highest_order: int = MAP_ORDER,
    ) -> PointMap:
        """A map of the sums of cells of mixed orders.

        Parameters
        ----------
        order, npix, rows : int[n]
            Disjoint cells and their rows. Cells without rows do not count as covered.
        highest_order : int
            The map has this order, or that of the coarsest cell if this is lower.

        Examples
        --------
        >>> PointMap.from_cells(np.array([1, 2, 2]), np.array([0, 4, 7]), np.array([5, 1, 2])).rows
        array([5, 3])
        """
        used = np.asarray(rows) > 0
        orders = np.asarray(order)[used].astype(np.int64)
        target = min(highest_order, int(orders.min(initial=highest_order)))
        pixels = np.asarray(npix)[used].astype(np.int64) >> (2 * (orders - target))
        counts = np.zeros(12 << (2 * target), dtype=np.int64)
        np.add.at(counts, pixels, np.asarray(rows)[used].astype(np.int64))
        occupied = np.flatnonzero(counts)
        return cls(target, occupied, counts[occupied])

    @classmethod
    def from_fits(cls, data: bytes) -> PointMap:
        """The inverse of `to_fits`.

        Raises
        ------
        CatalogFormatError
            It is no such file.
        """
        try:
            return cls._from_fits(data)
        except Exception as error:  # of many kinds, by what is wrong
            raise CatalogFormatError(f"a point map is damaged ({error}); show the version again") from error

    @classmethod
    def _from_fits(cls, data: bytes) -> PointMap:
        from astropy.io import fits

        with fits.open(io.BytesIO(data)) as file:
            table = file[1]
            order = int(table.header["NSIDE"]).bit_length() - 1
            rows = np.asarray(table.data["VALUE"]).astype(np.int64)
            if table.header["INDXSCHM"] == "EXPLICIT":
                return cls(order, np.asarray(table.data["PIXEL"]).astype(np.int64), rows)
        occupied = np.flatnonzero(rows)
        return cls(order, occupied, rows[occupied])

    def plus(self, *others: PointMap, sign: int = 1) -> PointMap:
        """The rows of this map and of others together; with `sign=-1`, without those of the others."""
        maps = [self, *others]
        order = min(found.order for found in maps)
        counts = np.zeros(12 << (2 * order), np.int64)
        for found, weight in zip(maps, [1, *[sign] * len(others)], strict=True):
            np.add.at(counts, found.npix >> (2 * (found.order - order)), weight * found.rows)
        occupied = np.flatnonzero(counts)
        return PointMap(order, occupied, counts[occupied])

    @property
    def covered(self) -> Intervals:
        """The occupied pixels, at order 29."""
        shift = 2 * (MAX_ORDER - self.order)
        return Intervals.union(self.npix << shift, (self.npix + 1) << shift)

    def coarser(self, order: int) -> PointMap:
        """The map at another order, which is not finer."""
        full = np.full(len(self.npix), self.order)
        return PointMap.from_cells(full, self.npix, self.rows, highest_order=order)

    @property
    def pixels(self) -> int:
        """Pixels on the whole sky at the map's order."""
        return 12 << (2 * self.order)

    @property
    def sky_fraction(self) -> float:
        """The covered part of the sky, 0 to 1."""
        return len(self.npix) / self.pixels

    def to_fits(self) -> bytes:
        """The FITS file. The same map gives the same bytes."""
        from astropy.io import fits

        sparse = 2 * len(self.npix) < self.pixels
        if sparse:
            columns = [
                fits.Column("PIXEL", "K", array=self.npix),
                fits.Column("VALUE", "K", array=self.rows),
            ]
        else:
            dense = np.zeros(self.pixels, dtype=np.int64)
            dense[self.npix] = self.rows
            columns = [fits.Column("VALUE", "K", array=dense)]
        table = fits.BinTableHDU.from_columns(columns)
        cards = {
            "PIXTYPE": "HEALPIX",
            "INDXSCHM": "EXPLICIT" if sparse else "IMPLICIT",
            "ORDERING": "NESTED",
            "COORDSYS": "C",
            "NSIDE": 1 << self.order,
        }
        if sparse:
            cards |= {"OBS_NPIX": len(self.npix), "OBJECT": "PARTIAL"}
        else:
            cards |= {"FIRSTPIX": 0, "LASTPIX": self.pixels - 1, "OBJECT": "FULLSKY"}
        table.header.update(cards)
        sink = io.BytesIO()
        fits.HDUList([fits.PrimaryHDU(), table]).writeto(sink)
        return sink.getvalue()
