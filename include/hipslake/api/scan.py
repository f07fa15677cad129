"""Reads that are not done until rows are asked for: in memory, in batches, or by other engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from hipslake.api.chosen_rows import SEED, first_rows, part_rows, sampled_rows
from hipslake.api.scan_partition import ScanPartition
from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.reading import Part, PartReader
from hipslake.catalog.selection import Selection, select
from hipslake.engine.this_process import read_ahead
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.predicates.predicate_tree import And, Predicate
from hipslake.sphere.intervals import Intervals, PixelLike
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.sphere.regions import Region
from hipslake.sphere.regions.common_region import CommonRegion

if TYPE_CHECKING:
    import pandas as pd

    from hipslake.api.column_histogram import ColumnHistogram
    from hipslake.api.column_statistics import Statistics
    from hipslake.api.scan_dataset import ScanDataset


@dataclass(frozen=True)
class Scan:
    """Rows of a version of a catalog, not read yet: which columns of which rows.

    Made by `Catalog.scan`. A scan does not change: `select`, `filter` and `within` give others. It is
    resolved when it is made, so that mistakes in names, filters and regions are told at once; leaf files are
    opened when rows are asked for, each time anew. Whatever asks gets the rows of `Catalog.read` with the
    same arguments, and reads only the leaves, row groups and columns that it needs.
    """

    catalog: CatalogReader
    chosen: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    pixels: Intervals | None = None
    group: str | None = None
    region: Region | None = None

    @classmethod
    def of(
        cls,
        catalog: CatalogReader,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        pixels: Iterable[PixelLike] | None = None,
        group: str | None = None,
        region: Region | str | None = None,
    ) -> Scan:
        """Resolve a scan; parameters and errors as for `Catalog.read`."""
        found, inside = catalog.selected(columns, filters, pixels, group, region)
        chosen = None if columns is None else tuple(found.schema.names)
        cut = None if found.cut is None else found.cut.region
        return cls(catalog, chosen, found.filter, inside, group, cut)

    def select(self, columns: Sequence[str]) -> Scan:
        """The same rows with these columns, in this order; any of the catalog, or of the scan's group."""
        return self._resolved(chosen=_names(self.catalog, columns))

    def filter(self, filters: Any) -> Scan:
        """Those of the rows that a filter lets through as well; on any columns, as for `Catalog.read`."""
        added = select(self.catalog.metadata, None, filters, self.group).filter
        parts = tuple(each for each in (self.predicate, added) if each is not None)
        return self._resolved(predicate=And(parts) if len(parts) == 2 else next(iter(parts), None))

    def within(self, region: Region | str) -> Scan:
        """Those of the rows that lie in a region as well, as for `Catalog.read`."""
        added = region_of(region)
        return self._resolved(region=added if self.region is None else CommonRegion((self.region, added)))

    def _resolved(self, **changes: Any) -> Scan:
        found = replace(self, **changes)
        _ = found.selection  # to tell of mistakes now
        return found

    @cached_property
    def selection(self) -> Selection:
        """Columns by their groups, the filter and the cut of the region."""
        return select(
            self.catalog.metadata,
            None if self.chosen is None else list(self.chosen),
            self.predicate,
            self.group,
            self.region,
        )

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        return self.selection.schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the rows."""
        return list(self.schema.names)

    def __repr__(self) -> str:
        said = [f"{self.catalog.name} version {self.catalog.version}", f"columns={self.columns}"]
        said += [f"filter={self.predicate}"] if self.predicate is not None else []
        said += [f"region={self.region}"] if self.region is not None else []
        said += ["pixels=..."] if self.pixels is not None else []
        said += [f"group={self.group!r}"] if self.group is not None else []
        return f"Scan({', '.join(said)})"

    # Rows in memory

    def tables(self) -> Iterator[pa.Table]:
        """The rows leaf by leaf along the curve; the next leaves are read meanwhile."""
        if not self.schema.names:  # of no column at all, Arrow forgets how many rows there are
            for table in self.select([HEALPIX_COLUMN]).tables():
                yield table.select([])
            return
        reader, parts = self.reading()
        yield from read_ahead(reader.read, reader.ahead(parts))

    def to_arrow(self) -> pa.Table:
        """All rows as a table, ordered by (`_healpix_29`, `_row`)."""
        if not self.schema.names:  # of tables without a column, Arrow adds no rows up
            return self.select([HEALPIX_COLUMN]).to_arrow().select([])
        tables = list(self.tables())
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_batches(self, rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch along the curve, for what does not fit into memory.

        Parameters
        ----------
        rows : int, optional
            The most rows of a batch; without it, batches are as they come.

        Raises
        ------
        SchemaMismatchError
            The scan has no column.
        """
        if not self.schema.names:
            raise SchemaMismatchError("a scan without columns has no batches: name one, or use count()")
        if rows is not None and rows < 1:
            raise SpecError(f"rows is {rows}: a batch has at least one")
        return (batch for table in self.tables() for batch in table.to_batches(max_chunksize=rows))

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow, which can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The stream for any library that takes one; `pyarrow.table(scan)` does, for instance."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def count(self) -> int:
        """How many rows there are. Leaves of which every row counts are not opened."""
        if self.predicate is None and self.region is None and self.pixels is None:
            return self.catalog.metadata.total_rows
        return sum(part_rows(self))

    def head(self, n: int = 10) -> pa.Table:
        """The first rows along the curve; see `Catalog.head`."""
        return first_rows(self, n)

    def sample(self, n: int, seed: int = SEED) -> pa.Table:
        """Some rows by chance, in the order of `Catalog.read`; see `Catalog.sample`."""
        return sampled_rows(self, n, seed)

    # Leaf by leaf

    def partitions(self) -> Iterator[ScanPartition]:
        """The leaves that may hold rows, along the curve; none is read."""
        if not self.schema.names:
            raise SchemaMismatchError("a scan without columns has no partitions: name one, or use count()")
        reader, parts = self.reading()
        return (ScanPartition(reader, part) for part in parts)

    def map_partitions(
        self,
        function: Callable[[Any], Any],
        *,
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
        frames : {"arrow", "pandas"}
            What it takes.
        schema : pyarrow.Schema, optional
            What it gives: columns are cast to it. Without it, all have to give the columns of the first.
        workers : int, optional
            How many leaves are worked on at once; by default one per core.
        processes : bool
            In processes in place of threads: for functions that are slow in Python itself. The function is
            sent to them: it stands in a module, or the package cloudpickle is installed.
        spark : pyspark.sql.SparkSession, optional
            In its executors, which need hipslake. Without `schema`, the function is tried on an empty table.

        Returns
        -------
        pyarrow.Table
            Leaf after leaf along the curve. Where there is no row and no schema is given, the function is
            called once with an empty table.

        Raises
        ------
        SchemaMismatchError
            The function gives something else, or not everywhere the same columns; the message names the leaf.
        SpecError
            `workers` or `frames` is none, or `workers` and `processes` are given beside `spark`.
        Exception
            What the function raised, with a note that names the leaf.
        """
        from hipslake.api.mapped_partitions import map_partitions

        return map_partitions(
            self, function, frames, schema, workers=workers, processes=processes, spark=spark
        )

    # What is in them

    def statistics(self, columns: Sequence[str] | None = None, *, exact: bool = False) -> Statistics:
        """Rows, nulls, least and greatest values of columns; see `Catalog.statistics`."""
        from hipslake.api.column_statistics import statistics_of

        return statistics_of(self, columns, exact=exact)

    def histogram(
        self, column: str, bins: int | Sequence[float] = 50, range: tuple[Any, Any] | None = None
    ) -> ColumnHistogram:
        """How the values of a column are distributed; see `Catalog.histogram`."""
        from hipslake.api.column_histogram import histogram_of

        return histogram_of(self, column, bins, range)

    # For other engines

    def to_dataset(self) -> ScanDataset:
        """The rows as a `pyarrow.dataset.Dataset`, for what scans one with columns and filters of its own."""
        from hipslake.api.scan_dataset import ScanDataset

        return ScanDataset(self)

    def to_polars(self) -> Any:
        """The rows as a `polars.LazyFrame`, which reads only the columns that a query needs.

        Filters of polars are applied leaf by leaf; those of the scan also skip row groups.

        Raises
        ------
        MissingPackageError
            polars is not installed.
        """
        from hipslake.api.hand_over import to_polars

        return to_polars(self)

    def to_duckdb(self, connection: Any = None) -> Any:
        """The rows as a relation of DuckDB, which reads only the columns that a query needs.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection, optional
            DuckDB's default connection if not given.

        Raises
        ------
        MissingPackageError
            duckdb is not installed.
        """
        from hipslake.api.hand_over import to_duckdb

        return to_duckdb(self, connection)

    def to_dask(self) -> Any:
        """The rows as a dask DataFrame with a partition per leaf, in columns that Arrow backs.

        Raises
        ------
        MissingPackageError
            dask is not installed, or without its data frames.
        """
        from hipslake.api.hand_over import to_dask

        return to_dask(self)

    def to_lsdb(self, **options: Any) -> Any:
        """The rows as a catalog of LSDB: the HATS tree of this version, cut exactly to the scan.

        Parameters
        ----------
        **options
            Further ones of `lsdb.open_catalog`.

        Raises
        ------
        MissingPackageError
            lsdb is not installed.
        SpecError
            The catalog is not of layout `hats`, or the columns are of several column groups.
        TreeNotFoundError
            The version has no tree (yet).
        """
        from hipslake.api.hats_hand_over import to_lsdb

        return to_lsdb(self, options)

    def reading(self) -> tuple[PartReader, list[Part]]:
        """What reads its leaves, and the leaves that may hold rows of it, along the curve."""
        reader = PartReader.of(self.catalog.storage, self.catalog.metadata, self.selection, self.pixels)
        return reader, reader.parts(self.catalog.metadata)


def _names(catalog: CatalogReader, columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str):  # a sequence of letters
        raise SchemaMismatchError(
            f"catalog {catalog.name}: columns is a list of names, not {columns!r}; give [{columns!r}]"
        )
    return tuple(columns)
