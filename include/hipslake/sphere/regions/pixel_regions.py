"""Regions made of HEALPix pixels: MOCs and lists of pixels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.errors import RegionError
from hipslake.sphere.intervals import Intervals, PixelLike
from hipslake.sphere.pixels import Pixel, order29
from hipslake.sphere.regions.region import Cover


@dataclass(frozen=True)
class Moc:
    """A MOC: pixels of several orders, NESTED.

    Its border is that of its pixels, so that a position lies in it if the pixel of order 29 does.
    Standard: IVOA MOC 2.0. `hipslake.catalog.moc_files.read_moc` reads one from a file.

    Parameters
    ----------
    intervals : Intervals

    Examples
    --------
    >>> str(Moc(Intervals.of([(3, 1), (3, 2), (5, 7)])))
    'moc 3/1-2 5/7'
    """

    intervals: Intervals

    def __str__(self) -> str:
        parts = (
            f"{order}/" + ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
            for order, runs in self.intervals.pixel_ranges().items()
        )
        return " ".join(["moc", *parts]) if len(self.intervals) else "moc 0/"

    @classmethod
    def from_mocpy(cls, moc: Any) -> Moc:
        """The same region as a `mocpy.MOC`."""
        start, stop = np.asarray(moc.to_depth29_ranges).reshape(-1, 2).astype(np.int64).T
        return cls(Intervals.union(start, stop))

    def to_mocpy(self) -> Any:
        """The same region as a `mocpy.MOC`, of the least order that holds it."""
        from mocpy import MOC

        order = max((order for order, _, _ in self.intervals.pixel_runs()), default=0)
        ranges = np.stack([self.intervals.start, self.intervals.stop], axis=1).astype(np.uint64)
        return MOC.from_depth29_ranges(order, ranges)

    @property
    def sky_fraction(self) -> float:
        """The part of the whole sky that it covers, from 0 to 1."""
        return self.intervals.sky_fraction

    def cover(self) -> Cover:
        return Cover(self.intervals, self.intervals)

    def contains(self, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.bool_]:
        return _pixels_hold(self.intervals, ra, dec)


@dataclass(frozen=True, init=False)
class PixelList:
    """The union of pixels of any orders, NESTED.

    Parameters
    ----------
    pixels : iterable of Pixel or (order, npix)
        They may overlap.

    Raises
    ------
    RegionError
        There is no such pixel.

    Examples
    --------
    >>> str(PixelList([(2, 5), (3, 100)]))
    'pixels 2/5 3/100'
    """

    pixels: tuple[Pixel, ...]

    def __init__(self, pixels: Iterable[PixelLike]) -> None:
        given = tuple(pixels)
        _ = _union(given)
        object.__setattr__(self, "pixels", tuple(Pixel(int(order), int(npix)) for order, npix in given))

    def __str__(self) -> str:
        return " ".join(["pixels", *(f"{order}/{npix}" for order, npix in self.pixels or [(0, "")])])

    def cover(self) -> Cover:
        return Cover(_union(self.pixels), _union(self.pixels))

    def contains(self, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.bool_]:
        return _pixels_hold(_union(self.pixels), ra, dec)


def _union(pixels: Iterable[PixelLike]) -> Intervals:
    try:
        return Intervals.of(pixels)
    except (ValueError, OverflowError) as error:
        raise RegionError(f"pixels: {error}; pixels are order/number, NESTED, say 3/100") from None


def _pixels_hold(intervals: Intervals, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.bool_]:
    lon, lat = np.broadcast_arrays(np.asarray(ra, np.float64), np.asarray(dec, np.float64))
    return intervals.hold(order29(lon, lat).ravel()).reshape(lon.shape)
