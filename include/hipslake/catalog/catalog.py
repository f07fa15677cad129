"""A published catalog, opened for reading: `from hipslake import Catalog`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import pixels_in
from hipslake.catalog.reading import read_parts
from hipslake.catalog.selection import Intervals, PixelLike, joined_schema, select
from hipslake.errors import CatalogFormatError, SpecError
from hipslake.sphere.coordinates import REASONS, check_positions
from hipslake.sphere.pixels import HEALPIX_COLUMN, order29
from hipslake.sphere.tree import PixelTree
from hipslake.storage import Storage
from hipslake.versions.log import VersionLog

if TYPE_CHECKING:
    import pandas as pd

    from hipslake.catalog.findings import VerificationReport
    from hipslake.catalog.vacuum import VacuumOutcome


class PixelsAt(NamedTuple):
    """The leaf of each position: arrays of the positions' shape, -1 where the catalog has no leaf."""

    order: NDArray[np.int64]
    npix: NDArray[np.int64]


class Catalog:
    """One version of a catalog.

    Made by `Catalog.open`. It stays the same, whatever is published afterwards; open again for the newest.

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
    def open(cls, uri: str | Path, version: int | None = None) -> Catalog:
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
        return f"Catalog({self.uri!r}, version={self.version})"

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

    def path(self, group: str | None = None) -> str:
        """Folder of the files that this version's writer wrote: all of them, or those of a column group.

        A version that was appended to also names files in older writes; `metadata.partitions` lists them all.
        """
        write_id = self.metadata.write_id
        if group is None:
            return self.storage.uri(write_id)
        name = self.metadata.group(group).name
        return self.storage.uri(self.metadata.paths.group_root(write_id, name))

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

    def read(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
    ) -> pa.Table:
        """Read rows. Only the leaves, row groups and columns that are needed are fetched.

        Parameters
        ----------
        columns : sequence of str, optional
            All of `schema` if not given. Of several column groups, only those that hold these are read.
        filters : pyarrow.compute.Expression or list, optional
            An expression on any columns, or lists in disjunctive normal form, as for
            `pyarrow.parquet.read_table`.
        pixels : iterable of Pixel or (order, npix), optional
            Only rows inside these pixels, NESTED, of any orders: leaves, parts of leaves, or their parents.
        group : str, optional
            Read this column group alone.

        Returns
        -------
        pyarrow.Table
            Ordered by (`_healpix_29`, `_row`): the same read gives the same table.

        Raises
        ------
        SchemaMismatchError
            There is no such column.
        VerificationError
            A leaf file is missing or damaged.
        """
        if columns is not None and not len(columns):  # of no column at all, Arrow forgets how long it was
            return self.read([HEALPIX_COLUMN], filters, pixels, group).select([])
        tables = list(self.tables(columns, filters, pixels, group))
        schema = select(self.metadata, columns, None, group).schema
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def tables(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
    ) -> Iterator[pa.Table]:
        """Read like `read`, but leaf by leaf along the curve: for catalogs that do not fit into memory."""
        selection = select(self.metadata, columns, filters, group)
        inside = None if pixels is None else Intervals.of(pixels)
        return read_parts(self.storage, self.metadata, selection, inside)

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
    ) -> pd.DataFrame:
        """Read like `read`, as a pandas DataFrame."""
        return self.read(columns, filters, pixels, group).to_pandas()

    def to_spark(
        self,
        spark: Any,
        columns: Sequence[str] | None = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
    ) -> Any:
        """Read as a Spark DataFrame, lazily, of the needed leaf files; filter it with `where`.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession
        columns, pixels, group
            As for `read`. Rows have no order in Spark.

        Returns
        -------
        pyspark.sql.DataFrame
        """
        from hipslake.spark.reading import read_spark

        return read_spark(self, spark, columns=columns, pixels=pixels, group=group)

    def verify(self, *, workers: int | None = None) -> VerificationReport:
        """Check every file of this version against its metadata; see `hipslake.catalog.verification`.

        Parameters
        ----------
        workers : int, optional
            Leaves that are looked at at once; one per core if not given.
        """
        from hipslake.catalog.verification import verify_catalog

        return verify_catalog(self.storage, self.metadata, workers=workers)

    def build_margin(self, *arcsec: float) -> Catalog:
        """Add margins to the newest version, by a commit of their own; its rows stay what they are.

        Parameters
        ----------
        *arcsec : float
            Distances. Those at which the version has a margin already are passed over.

        Returns
        -------
        Catalog
            The newest version.

        Raises
        ------
        SpecError
            A distance is out of bounds, or the primary column group lacks the position columns.
        ConflictError
            Others kept changing the catalog.
        """
        from hipslake.engine.this_process import ThisProcess
        from hipslake.spark.margin import add_margins
        from hipslake.specs.catalog import Unchanged
        from hipslake.specs.margin import check_distances
        from hipslake.steps.hats_view import show_newest
        from hipslake.steps.pointers import point_at_newest

        try:
            distances = check_distances(tuple(map(float, arcsec)))
        except ValueError as error:
            raise SpecError(f"{self.name}: {error}") from None
        metadata = add_margins(self.storage, distances, ThisProcess())
        if metadata is not None:
            point_at_newest(self.storage)
            show_newest(self.storage, Unchanged(metadata.spec.get("unchanged", Unchanged.LINK)))
        return Catalog.open(self.storage.root) if metadata is None else Catalog(self.storage, metadata)

    def rollback(self, version: int) -> Catalog:
        """Publish the content of an older version once more, as the newest; nothing is copied or undone.

        Parameters
        ----------
        version : int
            The version to bring back.

        Returns
        -------
        Catalog
            The new version.

        Raises
        ------
        VersionNotFoundError
            There is no such version, or it was vacuumed.
        SpecError
            It is the newest version.
        ConflictError
            Others kept committing first.
        """
        from hipslake.catalog.rollback import roll_back
        from hipslake.specs.catalog import Unchanged
        from hipslake.steps.hats_view import show_newest

        metadata = roll_back(self.storage, version)
        show_newest(self.storage, Unchanged(metadata.spec.get("unchanged", Unchanged.LINK)))
        return Catalog(self.storage, metadata)

    def vacuum(self, *, keep_versions: int, keep_days: float, dry_run: bool = True) -> VacuumOutcome:
        """Take old versions away, with every file that no other version needs, and what dead runs have left.

        Parameters
        ----------
        keep_versions : int
            So many of the newest versions stay, the newest one counted.
        keep_days : float
            A version stays for so many days after a newer one took its place.
        dry_run : bool
            Only say what would be done.

        Raises
        ------
        SpecError
            A number is out of bounds.
        CatalogFormatError
            It is not known what a version needs, as it cannot be read; nothing is deleted.
        """
        from hipslake.catalog.vacuum import vacuum_catalog
        from hipslake.specs.vacuum import Retention
        from hipslake.steps.pointers import point_at_newest

        retention = Retention.of(keep_versions, keep_days)
        if not dry_run:
            point_at_newest(self.storage)
        return vacuum_catalog(self.storage, retention, now=datetime.now(UTC), dry_run=dry_run)

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
