"""The rows of a catalog, offered to a cube: a part is a leaf of its first column group, or a part of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.sphere.pixels import Pixel


@dataclass(frozen=True)
class CatalogRows:
    """One version of a catalog, or what of it lies in some pixels.

    Parameters
    ----------
    uri : str
    version : int
    pixels : tuple of tuple of Pixel
        Per part; disjoint.
    schema : pyarrow.Schema
    """

    uri: str
    version: int
    pixels: tuple[tuple[Pixel, ...], ...]
    schema: pa.Schema

    @classmethod
    def of(
        cls, uri: str, version: int | None = None, *, within: tuple[int, NDArray[np.int64]] | None = None
    ) -> CatalogRows:
        """A catalog; by default all of its newest version.

        Parameters
        ----------
        uri : str
        version : int, optional
        within : (int, int64[n]), optional
            An order, and pixels there, ascending: only rows in these.
        """
        catalog = CatalogReader.open(uri, version)
        order, npix = catalog.metadata.groups[0].leaf_pixels()
        leaves = [Pixel(*each) for each in zip(order.tolist(), npix.tolist(), strict=True)]
        parts = [(leaf,) for leaf in leaves] if within is None else _cut(leaves, *within)
        return cls(catalog.uri, catalog.version, tuple(parts), catalog.schema.remove_metadata())

    @property
    def parts(self) -> int:
        return len(self.pixels)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        catalog = CatalogReader.open(self.uri, self.version)
        yield catalog.read(columns=list(columns), pixels=self.pixels[part])


def _cut(leaves: list[Pixel], order: int, npix: NDArray[np.int64]) -> list[tuple[Pixel, ...]]:
    """What of leaves lies in pixels of an order; leaves without any are left out."""
    shift = [2 * (leaf.order - order) for leaf in leaves]
    low = [leaf.npix >> by if by > 0 else leaf.npix << -by for leaf, by in zip(leaves, shift, strict=True)]
    high = [first + (1 << max(0, -by)) for first, by in zip(low, shift, strict=True)]
    first, last = np.searchsorted(npix, low), np.searchsorted(npix, high)
    parts: list[tuple[Pixel, ...]] = []
    for leaf, begin, end in zip(leaves, first.tolist(), last.tolist(), strict=True):
        if begin < end:
            finer = leaf.order >= order
            parts.append((leaf,) if finer else tuple(Pixel(order, n) for n in npix[begin:end].tolist()))
    return parts
