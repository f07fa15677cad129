"""HEALPix pixels in NESTED numbering, and the order-29 index that every coarser pixel is a shift of.

Source: Gorski et al. 2005, ApJ 622, 759; the index column follows the HATS convention `_healpix_29`.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

_ALONE = f"{__name__}_alone"
MAX_ORDER = 29
HEALPIX_COLUMN = "_healpix_29"
WHOLE_SKY = (0, 12 << (2 * MAX_ORDER))
"""All order-29 pixels, [start, stop)."""
_NSIDE = 1 << MAX_ORDER
# healpy makes several temporary arrays: in pieces that stay in the cache, 1M rows take 45 ms instead of 70.
_CACHED_ROWS = 1 << 15


@cache
def pixel_functions() -> Any:
    """Return the module `healpy.pixelfunc`, without the rest of healpy.

    `import healpy` loads matplotlib and astropy and takes over a second, in every process of a Spark job. The
    module `healpy.pixelfunc` needs numpy only; it is loaded as part of a package whose `__init__` is empty.
    """
    found = find_spec("healpy")
    if found is None or found.submodule_search_locations is None:
        raise ModuleNotFoundError("healpy is not installed", name="healpy")
    package = ModuleType(_ALONE)
    package.__path__ = list(found.submodule_search_locations)
    sys.modules[_ALONE] = package
    return import_module(f"{_ALONE}.pixelfunc")


class Pixel(NamedTuple):
    """One HEALPix pixel.

    Examples
    --------
    >>> str(Pixel(2, 5))
    'Norder=2, Npix=5'
    >>> Pixel(1, 5).parent()
    Pixel(order=0, npix=1)
    """

    order: int
    npix: int

    def __str__(self) -> str:
        return f"Norder={self.order}, Npix={self.npix}"

    @property
    def interval(self) -> tuple[int, int]:
        """The order-29 pixels in it, as [start, stop)."""
        shift = 2 * (MAX_ORDER - self.order)
        return self.npix << shift, (self.npix + 1) << shift

    def parent(self) -> Pixel:
        """The pixel of the next lower order that holds it; `ValueError` at order 0."""
        if self.order == 0:
            raise ValueError(f"{self} has no parent: order 0 is the coarsest")
        return Pixel(self.order - 1, self.npix >> 2)

    def children(self) -> tuple[Pixel, ...]:
        """The four pixels of the next order, along the curve; `ValueError` at order 29."""
        if self.order == MAX_ORDER:
            raise ValueError(f"{self} has no children: order {MAX_ORDER} is the finest")
        first = self.npix << 2
        return tuple(Pixel(self.order + 1, first + place) for place in range(4))


def order29(ra: ArrayLike, dec: ArrayLike) -> NDArray[np.int64]:
    """`_healpix_29` of positions, exactly as healpy computes it, whatever the batch they come in.

    Parameters
    ----------
    ra, dec : float[n]
        Degrees. Any longitude: it wraps. dec in [-90, 90]; `check_positions` finds those that are not.

    Returns
    -------
    int64[n]
        NESTED pixel number at order 29.
    """
    lon, lat = np.asarray(ra, np.float64), np.asarray(dec, np.float64)
    if lon.shape != lat.shape:
        raise ValueError(f"ra and dec are of one shape, not {lon.shape} and {lat.shape}")
    shape, lon, lat = lon.shape, lon.ravel(), lat.ravel()
    index = np.empty(len(lon), np.int64)
    ang2pix = pixel_functions().ang2pix
    for low in range(0, len(lon), _CACHED_ROWS):
        piece = slice(low, low + _CACHED_ROWS)
        index[piece] = ang2pix(_NSIDE, lon[piece], lat[piece], nest=True, lonlat=True)
    return index.reshape(shape)


def centers29(h29: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ICRS degrees of the centers of order-29 pixels (0.4 milliarcseconds wide): ra, dec, float64[n]."""
    ra, dec = pixel_functions().pix2ang(_NSIDE, h29, nest=True, lonlat=True)
    return ra, dec


def coarsen(h29: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """The pixels at a coarser order that hold order-29 pixels, int64[n]."""
    return h29 >> (2 * (MAX_ORDER - order))


def starts(order: ArrayLike, npix: ArrayLike) -> NDArray[np.int64]:
    """First order-29 pixel of each pixel; arrays broadcast."""
    shift = 2 * (MAX_ORDER - np.asarray(order, np.int64))
    return np.asarray(npix, np.int64) << shift


def stops(order: ArrayLike, npix: ArrayLike) -> NDArray[np.int64]:
    """One past the last order-29 pixel of each pixel; arrays broadcast."""
    return starts(order, np.asarray(npix, np.int64) + 1)
