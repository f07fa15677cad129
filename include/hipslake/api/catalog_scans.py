"""The rows of a catalog and what is in them: lazily, leaf by leaf, in numbers, and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from hipslake.api.chosen_rows import SEED
from hipslake.api.scan import Scan
from hipslake.api.scan_partition import ScanPartition
from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.sphere.intervals import PixelLike
from hipslake.sphere.regions import Moc, Region

if TYPE_CHECKING:
    from hipslake.api.catalog_changes import CatalogChanges
    from hipslake.api.column_histogram import ColumnHistogram
    from hipslake.api.column_statistics import Statistics


class CatalogScans(CatalogReader):
    """Scans, which read when rows are asked for, and what a notebook begins with."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> Scan:
        """The rows that `read` with the same arguments gives, not read yet.

        A scan is narrowed by `select`, `filter` and `within`, and asked for rows: `to_arrow`, `to_pandas`,
        `to_batches`, `count`, `head`, `sample`; leaf by leaf: `partitions`, `map_partitions`; or handed over:
        `to_polars`, `to_duckdb`, `to_dask`, `to_lsdb`. Regions are cut exactly in each of them.

        Parameters
        ----------
        columns, filters, pixels, group, region
            As for `read`, and so are the errors.
        """
        return Scan.of(self, columns, filters, pixels, group, region)

    def head(
        self,
        n: int = 10,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        region: Region | str | None = None,
    ) -> pa.Table:
        """The first rows along the curve, of as few row groups as hold them.

        Parameters
        ----------
        n : int
            How many, if there are so many.
        columns, filters, region
            As for `read`.
        """
        return self.scan(columns, filters, region=region).head(n)

    def sample(
        self,
        n: int,
        seed: int = SEED,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        region: Region | str | None = None,
    ) -> pa.Table:
        """Some rows by chance: every row is as likely, and none comes twice.

        The numbers of rows are drawn first; then only the row groups are read that hold them. With filters or
        a region, rows have to be counted before: the columns that decide are read once more.

        Parameters
        ----------
        n : int
            How many; all, if there are not more.
        seed : int
            The same seed gives the same rows of a version.
        columns, filters, region
            As for `read`.

        Returns
        -------
        pyarrow.Table
            In the order of `read`.
        """
        return self.scan(columns, filters, region=region).sample(n, seed)

    def partitions(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        region: Region | str | None = None,
    ) -> Iterator[ScanPartition]:
        """The leaves that may hold rows, along the curve, not read yet; parameters as for `read`.

        Each has `pixel`, `to_arrow()` and `to_pandas()`, and can be sent to other processes.
        """
        return self.scan(columns, filters, region=region).partitions()

    def map_partitions(
        self,
        function: Callable[[Any], Any],
        *,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        region: Region | str | None = None,
        frames: Literal["arrow", "pandas"] = "arrow",
        schema: pa.Schema | None = None,
        workers: int | None = None,
        processes: bool = False,
        spark: Any = None,
    ) -> pa.Table:
        """Call a function with the rows of each leaf that has any, and put together what it gives.

        Parameters
        ----------
        function : callable
            Takes the rows of a leaf, as a `pyarrow.Table` or a `pandas.DataFrame`, and gives a table, a
            record batch, a data frame (its index is left out), or None for nothing.
        columns, filters, region
            As for `read`.
        frames, schema, workers, processes, spark
            As for `hipslake.api.scan.Scan.map_partitions`: whether it takes Arrow or pandas, what it gives,
            and where it runs: in threads, in processes, or in the executors of a Spark session.

        Returns
        -------
        pyarrow.Table
            Leaf after leaf along the curve.

        Raises
        ------
        SchemaMismatchError
            The function gives something else, or not everywhere the same columns; the message names the leaf.
        SpecError
            Options do not go together.
        Exception
            What the function raised, with a note that names the leaf.
        """
        scan = self.scan(columns, filters, region=region)
        return scan.map_partitions(
            function, frames=frames, schema=schema, workers=workers, processes=processes, spark=spark
        )

    def changes(
        self,
        since: int,
        until: int | None = None,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        region: Region | str | None = None,
        *,
        key: Sequence[str] | None = None,
    ) -> CatalogChanges:
        """The rows that were inserted, updated and deleted between two versions, not read yet.

        They are the difference of two reads: of what `read` gives of either version, with the same columns,
        filter and region. So a row whose new values do not pass the filter any more is deleted. Rows count
        with all that they hold: of three equal ones in place of one, two were inserted. Compaction, splits,
        margins, rollbacks and rows that come again as they were are no changes. A column that one version
        lacks is null in its rows.

        Only files that one of the versions alone has are opened.

        Parameters
        ----------
        since : int
            The version that changes are told from; it may be the later one.
        until : int, optional
            The version that they lead to; this one if not given.
        columns : sequence of str, optional
            What is compared and given, beside `_healpix_29`; all but `_row` if not given. `_row` may be asked
            for, and is not compared.
        filters, region
            As for `read`.
        key : sequence of str, optional
            Columns of which no two rows have the same values. A row that went and one that came with the same
            key are an update, wherever they lie. That of the catalog's spec if not given, where it has one.
            Without a key there are only deletes and inserts.

        Returns
        -------
        CatalogChanges
            `_change` (`delete`, `update_before`, `update_after` or `insert`), `_healpix_29` and the columns:
            `to_arrow()`, `to_batches()`, `to_pandas()`, `counts()`, `to_spark(spark)`.

        Raises
        ------
        SpecError
            It is a catalog of others that was not adopted, so that it has no versions.
        VersionNotFoundError
            There is no such version, or it was vacuumed.
        SchemaMismatchError
            Neither version has such a column, no type holds the values of both, or a column cannot be a key.
        FilterError, RegionError
            The text is no filter, or no region.
        ReservedColumnError
            The catalog has a column `_change`.
        """
        from hipslake.api.catalog_changes import CatalogChanges

        return CatalogChanges.of(self, since, until, columns, filters, region, key)

    def statistics(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        region: Region | str | None = None,
        *,
        exact: bool = False,
    ) -> Statistics:
        """Rows, nulls, least and greatest values, units, UCDs and descriptions of columns.

        By the footers of the leaf files, which are small and tell this exactly of nearly all columns; of
        leaves that a filter or a region cuts, by the data. What footers do not tell is None, and `known` is
        false: the bounds of leaves with only NaN and of texts that are long or were cut, and anything of
        nested columns. How many values are NaN and what their mean is, only the data tell.

        Parameters
        ----------
        columns : sequence of str, optional
            All if not given.
        filters, region
            As for `read`.
        exact : bool
            By the data alone: nothing is unknown then, and the columns are read.

        Returns
        -------
        Statistics
            One `ColumnStatistics` per column, by its name or in order; `to_pandas()`, and a table in a
            notebook.

        Raises
        ------
        SchemaMismatchError
            There is no such column.
        FilterError, RegionError
            The text is no filter, or no region.
        VerificationError
            A leaf file is missing or damaged.
        """
        return self.scan(columns, filters, region=region).statistics(exact=exact)

    def histogram(
        self,
        column: str,
        bins: int | Sequence[float] = 50,
        range: tuple[Any, Any] | None = None,
        filters: Any = None,
        region: Region | str | None = None,
    ) -> ColumnHistogram:
        """How the values of a column are distributed: rows per range of values, counted leaf by leaf.

        Parameters
        ----------
        column : str
            Of numbers, dates or timestamps.
        bins : int or sequence
            How many ranges of equal width, or their edges.
        range : (low, high), optional
            The ends of the ranges; those of the finite values if not given.
        filters, region
            As for `read`.

        Returns
        -------
        ColumnHistogram
            `edges`, `counts`, and the rows `below`, `above`, `nulls` and `nans`; `plot()` draws it.

        Raises
        ------
        SpecError
            The column has no numbers or times, or the ranges make no sense.
        """
        return self.scan([column], filters, region=region).histogram(column, bins, range)

    def coverage(self, order: int | None = None) -> Moc:
        """The part of the sky where the version has rows, as a region.

        Up to order 8 it follows from what was counted when rows were ingested; deeper, `_healpix_29` is read
        in leaves that are larger than the pixels.

        Parameters
        ----------
        order : int, optional
            Of the pixels, 0 to 29: those that hold a row. The leaves if not given.

        Returns
        -------
        Moc
            Its text, `str(...)`, is a region of any read; `to_mocpy()` gives a `mocpy.MOC`, and
            `sky_fraction` says how much of the sky it is.

        Raises
        ------
        SpecError
            There is no such order.
        """
        from hipslake.api.rows_on_sky import coverage_of

        return coverage_of(self, order)

    def plot(self, axes: Any = None, order: int | None = None, **options: Any) -> Any:
        """Draw how dense rows lie on the sky, ICRS, on a logarithmic scale; no leaf file is opened.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            New ones if not given. Plain axes show an ellipse of Mollweide's projection, with half axes 2 and
            1; those of a projection of the whole sky (`projection="mollweide"`, `aitoff`, `hammer`,
            `lambert`) keep it. Right ascension grows to the left.
        order : int, optional
            Of the pixels, at most 8; as deep as rows fill them if not given.
        **options
            Of the image: `cmap`, `norm`, `vmin`, `vmax`, `alpha`.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        SpecError
            Rows were not counted so deep.
        """
        from hipslake.api.sky_plot import plot_density

        return plot_density(self, axes, order, options)

    def _repr_html_(self) -> str:
        from hipslake.api.catalog_views import catalog_html

        return catalog_html(self)
