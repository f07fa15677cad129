"""The rows of a catalog, as tables, data frames or a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hipslake.catalog.moc_files import region_of
from hipslake.catalog.opened import OpenedCatalog
from hipslake.catalog.reading import read_parts
from hipslake.catalog.selection import select
from hipslake.sphere.intervals import Intervals, PixelLike
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.regions import Region

if TYPE_CHECKING:
    import pandas as pd

    from hipslake.exports.writers import Exported


class CatalogRows(OpenedCatalog):
    """Reads rows by column, filter, pixel, region or indexed value, and exports them."""

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
        from hipslake.spark.catalog_frames import read_spark

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
        return export.write(export.rows(), overwrite=overwrite)
