"""The rows of a catalog, offered to a cube: a part is a leaf of its first column group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hipslake.catalog.catalog import Catalog
from hipslake.sphere.pixels import Pixel


@dataclass(frozen=True)
class CatalogRows:
    """One version of a catalog.

    Parameters
    ----------
    uri : str
    version : int
    pixels : tuple of Pixel
        Disjoint, and together all of it.
    schema : pyarrow.Schema
    """

    uri: str
    version: int
    pixels: tuple[Pixel, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, uri: str, version: int | None = None) -> CatalogRows:
        """A catalog; by default its newest version."""
        catalog = Catalog.open(uri, version)
        order, npix = catalog.metadata.groups[0].leaf_pixels()
        pixels = tuple(Pixel(*each) for each in zip(order.tolist(), npix.tolist(), strict=True))
        return cls(catalog.uri, catalog.version, pixels, catalog.schema.remove_metadata())

    @property
    def parts(self) -> int:
        return len(self.pixels)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        catalog = Catalog.open(self.uri, self.version)
        yield catalog.read(columns=list(columns), pixels=[self.pixels[part]])
