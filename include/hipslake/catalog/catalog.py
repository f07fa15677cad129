"""A published catalog, opened for reading: `from hipslake import Catalog`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.partitions import pixels_in
from hipslake.catalog.reading import read_parts
from hipslake.catalog.selection import joined_schema, select
from hipslake.errors import CatalogFormatError, SpecError
from hipslake.sphere.coordinates import REASONS, check_positions
from hipslake.sphere.intervals import Intervals, PixelLike
from hipslake.sphere.pixels import HEALPIX_COLUMN, order29
from hipslake.sphere.regions import Region
from hipslake.sphere.tree import PixelTree
from hipslake.storage import Storage
from hipslake.versions.log import VersionLog

if TYPE_CHECKING:
    import pandas as pd

    from hipslake.catalog.checks.findings import VerificationReport
    from hipslake.catalog.upkeep.vacuum import VacuumOutcome
    from hipslake.exports.writing import Exported
    from hipslake.specs.join import MotionColumns


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
            `pyarrow.parquet.read_table`; or a text, as for `hipslake.catalog.filters.parse_filter`:
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
        tables = list(self.tables(columns, filters, pixels, group, region))
        schema = select(self.metadata, columns, None, group).schema
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def tables(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> Iterator[pa.Table]:
        """Read like `read`, but leaf by leaf along the curve: for catalogs that do not fit into memory."""
        within = None if region is None else region_of(region)
        selection = select(self.metadata, columns, filters, group, within)
        inside = None if pixels is None else Intervals.of(pixels)
        return read_parts(self.storage, self.metadata, selection, inside)

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

    def to_spark(
        self,
        spark: Any,
        columns: Sequence[str] | None = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> Any:
        """Read as a Spark DataFrame, lazily, of the needed leaf files; filter it with `where`.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession
        columns, pixels, group, region
            As for `read`. Rows have no order in Spark. The cut of a region runs in Python on the executors,
            which need hipslake then.

        Returns
        -------
        pyspark.sql.DataFrame
        """
        from hipslake.spark.reading import read_spark

        return read_spark(self, spark, columns=columns, pixels=pixels, group=group, region=region)

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
        """Write rows to one Parquet, CSV or FITS file, whole or not at all, with a few leaves in memory.

        Parameters
        ----------
        uri : str or Path
            The file: a local path, or a URI that fsspec knows (`s3://`).
        region, columns, filters
            As for `read`; all rows and all columns if not given.
        format : {"parquet", "csv", "fits"}, optional
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
        return export.write(export.rows())

    def crossmatch(
        self,
        other: Catalog,
        *,
        radius_arcsec: float,
        min_radius_arcsec: float = 0.0,
        neighbours: int | Literal["all"] = 1,
        how: Literal["inner", "left", "anti"] = "inner",
        columns: Sequence[str] | None = None,
        other_columns: Sequence[str] | None = None,
        filters: Any = None,
        other_filters: Any = None,
        motion: MotionColumns | Mapping[str, str] | None = None,
        other_motion: MotionColumns | Mapping[str, str] | None = None,
        epoch: float | None = None,
        region: Region | str | None = None,
        **names: Any,
    ) -> pa.Table:
        """Match the rows of this catalog with those of another, for outcomes that fit into memory.

        `catalog_crossmatch` does it for larger ones, and publishes the outcome.

        Parameters
        ----------
        other : Catalog
            With a margin of at least the radius, and of what its rows and those of this catalog move.
        radius_arcsec, min_radius_arcsec : float
            Largest and smallest separation; both count as within.
        neighbours : int or "all"
            How many of the nearest rows of the other catalog each row gets. Of rows that are equally near,
            the earlier one in the other catalog is the nearer.
        how : {"inner", "left", "anti"}
            Rows with a match; all rows, with nulls where there is none; only rows without a match.
        columns, other_columns : sequence of str, optional
            What is kept of either catalog; all if not given. The position of this catalog is always kept.
        filters, other_filters : pyarrow.compute.Expression or list or str, optional
            Which rows of either catalog take part, as for `read`. Rows are filtered before they are matched:
            the nearest row is the nearest of those that pass, and a row whose neighbours do not pass has no
            match.
        motion, other_motion : MotionColumns or mapping of str to str, optional
            The columns that say how rows move: `pmra`, `pmdec`, `parallax`, `radial_velocity`.
        epoch : float, optional
            Julian year that moving rows are carried to before they are matched.
        region : Region or str, optional
            Only rows of this catalog in a part of the sky, as for `read`.
        **names
            `suffixes`, `separation`, `position_angle`, `rank`: what columns of the outcome are called, as in
            a spec.

        Returns
        -------
        pyarrow.Table
            `_healpix_29` and the columns of this catalog, the columns of the other one, separation and
            position angle; ordered as this catalog, and by nearness.

        Raises
        ------
        SchemaMismatchError
            There is no such column.
        FilterError, RegionError
            The text is no filter, or no region.
        SpecError
            What is asked for does not go together, or the other catalog has no sufficient margin.
        """
        from hipslake.catalog.joining.crossmatch import Crossmatch
        from hipslake.catalog.joining.stretch_plan import plan_stretches
        from hipslake.specs.crossmatch import match_options, motion_columns

        options = match_options(
            radius_arcsec=radius_arcsec,
            min_radius_arcsec=min_radius_arcsec,
            neighbours=neighbours,
            how=how,
            epoch=epoch,
            **names,
        )
        match = Crossmatch.of(
            (self.storage, self.metadata),
            (other.storage, other.metadata),
            options,
            columns=(columns, other_columns),
            motions=(motion_columns(motion), motion_columns(other_motion)),
            region=None if region is None else region_of(region),
            filters=(filters, other_filters),
        )
        plan = plan_stretches(self.storage, self.metadata, match.task_rows, only=match.only)
        stretches = zip(plan.start.tolist(), plan.stop.tolist(), strict=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda stretch: list(match.matched(*stretch)), stretches)
            return pa.Table.from_batches([batch for batches in found for batch in batches], match.schema)

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
        from hipslake.catalog.index import find_values

        select(self.metadata, [column])
        where, wanted = find_values(self.storage, self.metadata, column, values)
        selection = select(self.metadata, columns, pc.field(column).isin(wanted), group)
        tables = list(read_parts(self.storage, self.metadata, selection, where)) if len(where.start) else []
        return pa.concat_tables(tables) if tables else selection.schema.empty_table()

    def join(
        self,
        other: Catalog,
        on: str | tuple[str, str],
        how: Literal["inner", "left", "anti"] = "inner",
        *,
        columns: Sequence[str] | None = None,
        other_columns: Sequence[str] | None = None,
        filters: Any = None,
        other_filters: Any = None,
        suffixes: Sequence[str] | None = None,
        shuffle: bool = False,
        spark: Any = None,
    ) -> Any:
        """Join the rows of this catalog with those of another that have the same key.

        Leaf by leaf, without a shuffle: equal keys have to be known to lie in leaves that overlap. They are
        where the columns are marked as co-partitioned, and one catalog was ingested with `position_from` the
        other, or both from a third.

        Parameters
        ----------
        other : Catalog
        on : str or (str, str)
            The key of this catalog and of the other: integers or texts. Null equals nothing.
        how : {"inner", "left", "anti"}
            Rows with a partner; all rows, with nulls where there is none; only rows without a partner.
        columns, other_columns : sequence of str, optional
            What is kept of either catalog; all but `_healpix_29` and `_row` if not given.
        filters, other_filters : pyarrow.compute.Expression or list or str, optional
            Which rows of either catalog take part, as for `read`. Rows are filtered before they are joined: a
            row whose partners do not pass has none.
        suffixes : (str, str), optional
            Of names that both catalogs have; by default "" and "_<other catalog>".
        shuffle : bool
            Let Spark bring rows together from anywhere, so that every pair is found without any mark.
        spark : pyspark.sql.SparkSession, optional
            Give a lazy DataFrame of this session, for outcomes that do not fit into memory.

        Returns
        -------
        pyarrow.Table or pyspark.sql.DataFrame
            `_healpix_29` and the columns of this catalog, and those of the other. The table is in the order
            of this catalog.

        Raises
        ------
        CoPartitionError
            The keys are not known to share their pixels; the message tells the ways out.
        SchemaMismatchError
            There is no such column, or the keys are of two kinds.
        FilterError
            The text is no filter.
        SpecError
            Two columns of the outcome would have one name, `on` or `suffixes` are not two, or a shuffle is
            asked for without a session.
        """
        from hipslake.catalog.joining.equijoin import Equijoin
        from hipslake.joins.equijoin import keys_of

        join = Equijoin.of(
            (self.storage, self.metadata),
            (other.storage, other.metadata),
            keys_of(on),
            how,
            columns=(columns, other_columns),
            suffixes=suffixes,
            shuffle=shuffle,
            filters=(filters, other_filters),
        )
        if spark is not None:
            from hipslake.spark.joined_frames import joined_by_shuffle, joined_leaf_by_leaf

            return joined_by_shuffle(spark, join) if shuffle else joined_leaf_by_leaf(spark, join)
        if shuffle:
            raise SpecError("shuffle=True is Spark's join; give it a session with spark=")
        pieces = join.pieces()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(join.joined, pieces.start.tolist(), pieces.stop.tolist()))
        return pa.concat_tables([join.schema.empty_table(), *found])

    def time_series(
        self,
        sources: Catalog,
        on: str | tuple[str, str],
        time: str,
        *,
        name: str = "sources",
        columns: Sequence[str] | None = None,
        source_columns: Sequence[str] | None = None,
        filters: Any = None,
        source_filters: Any = None,
        keep_empty: bool = True,
        spark: Any = None,
    ) -> Any:
        """Give the objects of this catalog with their sources nested, in the order of time.

        Leaf by leaf, as `join`: the keys have to be co-partitioned.

        Parameters
        ----------
        sources : Catalog
        on : str or (str, str)
            The key of this catalog and of the sources.
        time : str
            The column of the sources that they are sorted by; sources of one time stay in the order that they
            were ingested in. NaN comes after all times, null after that.
        name : str
            Of the column that holds the sources: a list of structs, empty for objects without any.
        columns, source_columns : sequence of str, optional
            What is kept of either catalog; all but `_healpix_29` and `_row` if not given, and of the sources
            not the key nor the position of the object.
        filters, source_filters : pyarrow.compute.Expression or list or str, optional
            Which objects, and which sources, as for `read`.
        keep_empty : bool
            Whether objects stay of which no source is left.
        spark : pyspark.sql.SparkSession, optional
            Give a lazy DataFrame of this session, for outcomes that do not fit into memory.

        Returns
        -------
        pyarrow.Table or pyspark.sql.DataFrame
            The table is in the order of this catalog.

        Raises
        ------
        CoPartitionError, SchemaMismatchError, FilterError, SpecError
            As of `join`.
        """
        from hipslake.catalog.joining.time_series import TimeSeries
        from hipslake.joins.equijoin import keys_of

        series = TimeSeries.of(
            (self.storage, self.metadata),
            (sources.storage, sources.metadata),
            keys_of(on),
            time,
            name=name,
            columns=(columns, source_columns),
            filters=(filters, source_filters),
            keep_empty=keep_empty,
        )
        if spark is not None:
            from hipslake.spark.joined_frames import nested_leaf_by_leaf

            return nested_leaf_by_leaf(spark, series)
        pieces = series.pieces()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(series.joined, pieces.start.tolist(), pieces.stop.tolist()))
        return pa.concat_tables([series.schema.empty_table(), *found])

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
        from hipslake.catalog.upkeep.rollback import roll_back
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
        from hipslake.catalog.upkeep.vacuum import vacuum_catalog
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
