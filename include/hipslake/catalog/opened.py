"""A version of a catalog, opened: what it is called, what it holds, and where on the sky its leaves lie."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.partitions import pixels_in
from hipslake.catalog.selection import joined_schema
from hipslake.catalog.tree import check_tree
from hipslake.errors import CatalogFormatError
from hipslake.sphere.coordinates import REASONS, check_positions
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import order29
from hipslake.sphere.regions import Region
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog


class PixelsAt(NamedTuple):
    """The leaf of each position: arrays of the positions' shape, -1 where the catalog has no leaf."""

    order: NDArray[np.int64]
    npix: NDArray[np.int64]


class OpenedCatalog:
    """One version of a catalog, and its leaves; no row is read here.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        The version's.
    """

    def __init__(self, storage: Storage, metadata: CatalogMetadata) -> None:
        self.storage = storage
        self.metadata = metadata

    @classmethod
    def open(cls, uri: str | Path, version: int | None = None) -> Self:
        """Open a catalog.

        Parameters
        ----------
        uri : str or Path
            Folder of the catalog: a local path, or a URI that fsspec knows (`s3://`, `https://`).
        version : int, optional
            The newest if not given.

        Raises
        ------
        CatalogNotFoundError
            No catalog is published there.
        VersionNotFoundError
            The catalog has no such version, or it was vacuumed.
        CatalogFormatError
            metadata.json is damaged, or of a newer format.
        """
        storage = Storage.at(uri)
        log = VersionLog(storage)
        if version is not None and log.newest() is None:
            version = None  # so that the error says that there is no catalog, not that it has no such version
        metadata = CatalogMetadata.from_json(log.read(version), where=_where(storage, version))
        if version is not None and metadata.version != version:
            raise CatalogFormatError(
                f"{_where(storage, version)}: says that it is version {metadata.version}; restore the file"
            )
        return cls(storage, metadata)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r}, version={self.version})"

    @property
    def uri(self) -> str:
        """Folder of the catalog."""
        return self.storage.uri()

    @property
    def name(self) -> str:
        """Name of the catalog."""
        return self.metadata.catalog

    @property
    def version(self) -> int:
        """Number of this version."""
        return self.metadata.version

    def versions(self) -> list[int]:
        """Numbers of all versions that can be opened, ascending."""
        return VersionLog(self.storage).numbers()

    @cached_property
    def increments(self) -> tuple[Increment, ...]:
        """The runs whose rows the version holds, ascending by ordinal."""
        return self.metadata.all_increments(self.storage)

    def path(self, group: str | None = None) -> str:
        """Folder of the tree of this version: below it lie all of its leaf files, and no others.

        Parameters
        ----------
        group : str, optional
            Only the folder of this column group; in layout hipscat that is the same one.

        Raises
        ------
        TreeNotFoundError
            There is none: some files lie in the folders of older writes, and the step `view` has not brought
            them together (yet), or will not. `metadata.partitions` lists them all.
        """
        name = None if group is None else self.metadata.group(group).name
        check_tree(self.storage, self.metadata)
        write_id = self.metadata.write_id
        return self.storage.uri(self.metadata.paths.group_root(write_id, name) if name else write_id)

    @property
    def groups(self) -> list[str]:
        """Names of the column groups; the first is the primary."""
        return [group.name for group in self.metadata.groups]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of all groups, each once, as `read` gives them; `_row` is last where it is stored."""
        return joined_schema(self.metadata)

    def schema_of(self, group: str) -> pa.Schema:
        """What the leaf files of a column group hold."""
        return self.metadata.schema_of(group)

    @property
    def pixels(self) -> PixelTree:
        """The leaves of the primary column group, along the NESTED curve."""
        return self.pixels_of(self.groups[0])

    def pixels_of(self, group: str) -> PixelTree:
        """The leaves of a column group, along the NESTED curve."""
        return self._trees[self.metadata.group(group).name]

    def pixel_at(self, ra: ArrayLike, dec: ArrayLike, group: str | None = None) -> PixelsAt:
        """Find the leaves that hold positions.

        Parameters
        ----------
        ra, dec : float or array of float
            ICRS degrees; ra wraps, dec in [-90, 90]. They broadcast.
        group : str, optional
            Column group; the primary if not given.

        Returns
        -------
        PixelsAt
            `order` and `npix`, int64 arrays of the positions' shape; -1 where there is no leaf, since the
            catalog has no rows there.

        Raises
        ------
        ValueError
            A position is not on the sky; the message names the first.
        """
        lon, lat = np.broadcast_arrays(np.asarray(ra, np.float64), np.asarray(dec, np.float64))
        codes = check_positions(lon.ravel(), lat.ravel(), unit="deg")
        if codes.any():
            first = int(np.argmax(codes > 0))
            where = f"ra {lon.ravel()[first]}, dec {lat.ravel()[first]}"
            raise ValueError(f"position {first} ({where}): {REASONS[codes[first]]}")
        tree = self.pixels_of(group or self.groups[0])
        at = tree.find(order29(lon.ravel(), lat.ravel())).reshape(lon.shape)
        if not len(tree):
            return PixelsAt(at, at.copy())
        return PixelsAt(np.where(at < 0, -1, tree.order[at]), np.where(at < 0, -1, tree.npix[at]))

    def pixels_in(self, region: Region | str, group: str | None = None) -> PixelTree:
        """The leaves that may hold rows of a region; no data is read.

        Parameters
        ----------
        region : Region or str
            As for `read`.
        group : str, optional
            Column group; the primary if not given.

        Raises
        ------
        RegionError
            The text is no region.
        """
        tree = self.pixels_of(group or self.groups[0])
        met = region_of(region).cover().intervals.touch(tree.start, tree.stop)
        return PixelTree(tree.order[met], tree.npix[met])

    @cached_property
    def _trees(self) -> dict[str, PixelTree]:
        try:
            return {group.name: PixelTree(*pixels_in(group.pixels)) for group in self.metadata.groups}
        except ValueError as error:
            raise CatalogFormatError(
                f"{_where(self.storage, self.version)}: {error}; ingest again, or open an older version"
            ) from error


def _where(storage: Storage, version: int | None) -> str:
    return storage.uri() + (f", version {version}" if version is not None else "/metadata.json")
