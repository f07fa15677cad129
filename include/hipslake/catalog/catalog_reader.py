"""A version of a catalog, opened: what it holds, where its leaves lie, and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from hipslake.catalog.leaf_form import given_schema
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.partitions import pixels_in
from hipslake.catalog.reading import read_parts
from hipslake.catalog.selection import Selection, check_placed, joined_schema, select
from hipslake.catalog.view_tree import check_tree
from hipslake.errors import CatalogFormatError, SpecError
from hipslake.sphere.coordinates import REASONS, check_positions
from hipslake.sphere.intervals import Intervals, PixelLike
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.sphere.pixels import HEALPIX_COLUMN, order29
from hipslake.sphere.regions import Region
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import text_of
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import POINTER

if TYPE_CHECKING:
    import pandas as pd

    from hipslake.exports.writers import Exported


class PixelsAt(NamedTuple):
    """The leaf of each position: arrays of the positions' shape, -1 where the catalog has no leaf."""

    order: NDArray[np.int64]
    npix: NDArray[np.int64]


class CatalogReader:
    """One version of a catalog: its leaves and its rows, without Spark and without other catalogs.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        The version's.
    """

    def __init__(self, storage: Storage, metadata: CatalogMetadata) -> None:
        self.storage = storage.mounting(metadata.mounts)
        self.metadata = metadata

    @classmethod
    def open(cls, uri: str | Path, version: int | None = None, *, margins: Sequence[str | Path] = ()) -> Self:
        """Open a catalog: one of ours, or a HATS or HiPSCat catalog or collection that others wrote.

        Catalogs of others are read as they are, and never written to. They have no versions but number 1,
        which is what lies there when they are opened.

        Parameters
        ----------
        uri : str or Path
            Folder of the catalog: a local path, or a URI that fsspec knows (`s3://`, `https://`).
        version : int, optional
            The newest if not given.
        margins : sequence of str or Path
            Of catalogs of others: folders of margins that no collection names.

        Raises
        ------
        CatalogNotFoundError
            No catalog is published there, or a margin is not there.
        VersionNotFoundError
            The catalog has no such version, or it was vacuumed.
        CatalogFormatError
            metadata.json is damaged, or of a newer format; or what describes a catalog of others is damaged.
        SpecError
            Margins are given that are none, or with a catalog of ours.
        """
        storage = Storage.at(uri)
        pointer = text_of(storage, POINTER)
        if pointer is None:
            from hipslake.catalog.foreign.foreign_metadata import open_foreign

            if (foreign := open_foreign(storage, version, [str(each) for each in margins])) is not None:
                return cls(*foreign)
        if margins:
            raise SpecError(
                f"{storage.uri()} is a catalog of ours, which names its margins itself; open it without any"
            )
        log = VersionLog(storage, pointer)
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
    def opened_at(self) -> str:
        """What `open` takes to open it again: the folder of the catalog, or of the collection of others."""
        return self.metadata.opened_at or self.uri

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
        return [self.version] if self.metadata.is_foreign else VersionLog(self.storage).numbers()

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
        if name is None and not self.metadata.is_foreign:
            return self.storage.uri(self.metadata.write_id)
        return self.storage.uri(self.metadata.tree_root(name or self.groups[0]))

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
        return given_schema(self.metadata.schema_of(group))

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

    def read(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> pa.Table:
        """Read rows. Only the leaves, row groups and columns that are needed are fetched.

        Parameters
        ----------
        columns : sequence of str, optional
            All of `schema` if not given. Of several column groups, only those that hold these are read.
        filters : pyarrow.compute.Expression or list or str, optional
            An expression on any columns; or lists in disjunctive normal form, as for
            `pyarrow.parquet.read_table`; or a text, as for `hipslake.predicates.filter_text.parse_filter`:
            `"phot_g_mean_mag < 12 and ra_error is not null"`.
        pixels : iterable of Pixel or (order, npix), optional
            Only rows inside these pixels, NESTED, of any orders: leaves, parts of leaves, or their parents.
        group : str, optional
            Read this column group alone.
        region : Region or str, optional
            Only rows in this part of the sky: one of `hipslake.sphere.regions`, or a text that stands for one
            (`"cone 56.75 24.12 3deg"`), or `"moc URI"` for a file. The cut is exact, borders included, by the
            ICRS positions, which need not be among the columns.

        Returns
        -------
        pyarrow.Table
            Ordered by (`_healpix_29`, `_row`): the same read gives the same table.

        Raises
        ------
        SchemaMismatchError
            There is no such column.
        FilterError, RegionError
            The text is no filter, or no region.
        VerificationError
            A leaf file is missing or damaged.
        """
        if columns is not None and not len(columns):  # of no column at all, Arrow forgets how long it was
            return self.read([HEALPIX_COLUMN], filters, pixels, group, region).select([])
        selection, inside = self.selected(columns, filters, pixels, group, region)
        tables = read_parts(self.storage, self.metadata, selection, inside)
        return pa.concat_tables([selection.schema.empty_table(), *tables])

    def tables(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> Iterator[pa.Table]:
        """Read like `read`, but leaf by leaf along the curve: for catalogs that do not fit into memory."""
        return read_parts(
            self.storage, self.metadata, *self.selected(columns, filters, pixels, group, region)
        )

    def selected(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> tuple[Selection, Intervals | None]:
        """Resolve what `read` with the same arguments reads: columns, filter and region; and the pixels."""
        if pixels is not None or region is not None:
            check_placed(self.metadata)
        within = None if region is None else region_of(region)
        inside = None if pixels is None else Intervals.of(pixels)
        return select(self.metadata, columns, filters, group, within), inside

    def find(
        self,
        column: str,
        values: Any,
        columns: Sequence[str] | None = None,
        group: str | None = None,
    ) -> pa.Table:
        """Read the rows with some values of an indexed column; only leaves that hold them are opened.

        Rows of increments that came after the index was built are found too: then the leaves in which these
        increments have rows are opened as well.

        Parameters
        ----------
        column : str
        values : value, iterable, or array of numpy, pandas or pyarrow
            Values that no row has give no rows, and neither does null.
        columns, group
            As for `read`.

        Returns
        -------
        pyarrow.Table
            Ordered by (`_healpix_29`, `_row`).

        Raises
        ------
        IndexMissingError
            The column has no index; the message says how to build it.
        SchemaMismatchError
            There is no such column, or the values are not of its type.
        """
        from hipslake.catalog.finding import find_rows

        return find_rows(self.storage, self.metadata, column, values, columns, group)

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> pd.DataFrame:
        """Read like `read`, as a pandas DataFrame."""
        return self.read(columns, filters, pixels, group, region).to_pandas()

    def export(
        self,
        uri: str | Path,
        *,
        region: Region | str | None = None,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        format: str | None = None,
        overwrite: bool = False,
    ) -> Exported:
        """Write rows to a Parquet, CSV, FITS or VOTable file, whole or not at all, with few leaves in memory.

        Parameters
        ----------
        uri : str or Path
            The file: a local path, or a URI that fsspec knows (`s3://`).
        region, columns, filters
            As for `read`; all rows and all columns if not given.
        format : {"parquet", "csv", "fits", "votable"}, optional
            By the ending of the URI if not given.
        overwrite : bool
            Whether to replace what lies there.

        Returns
        -------
        Exported
            `uri`, `rows` and `bytes` of the file.

        Raises
        ------
        NotWritableError
            Something lies there already.
        SchemaMismatchError
            There is no such column, or the format has no form for one.
        SpecError
            There is no such format.
        FilterError, RegionError
            The text is no filter, or no region.
        """
        from hipslake.catalog.exporting import Export

        export = Export.of(self, str(uri), region=region, columns=columns, filters=filters, format=format)
        export.check(overwrite=overwrite)
        return export.write(export.rows(), overwrite=overwrite)

    @cached_property
    def _trees(self) -> dict[str, PixelTree]:
        if not self.metadata.lies_in_leaves:
            raise SpecError(f"{self.uri} is an index or a margin, whose rows lie elsewhere than its leaves")
        try:
            return {group.name: PixelTree(*pixels_in(group.pixels)) for group in self.metadata.groups}
        except ValueError as error:
            raise CatalogFormatError(
                f"{_where(self.storage, self.version)}: {error}; ingest again, or open an older version"
            ) from error


def _where(storage: Storage, version: int | None) -> str:
    return storage.uri() + (f", version {version}" if version is not None else "/metadata.json")
