"""What changed between two versions of a catalog, not read until rows are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.changes.change_feed import ChangeFeed
from hipslake.catalog.changes.change_rows import CHANGE_COLUMN, KINDS
from hipslake.catalog.exporting import origin_of
from hipslake.catalog.moc_files import region_of
from hipslake.errors import VersionNotFoundError
from hipslake.exports.provenance import Provenance
from hipslake.exports.writers import Exported, check_export, write_export
from hipslake.specs.export_formats import ExportFormat
from hipslake.sphere.regions import Region

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CatalogChanges:
    """The rows that were inserted, updated and deleted between two versions of a catalog.

    Made by `Catalog.changes`. It does not change; leaf files are opened when rows are asked for, each time
    anew, and of them only those that one of the two versions alone has.

    Attributes
    ----------
    since, until : int
        The versions.
    feed : ChangeFeed
    origin : Provenance
        What files tell of them.
    """

    since: int
    until: int
    feed: ChangeFeed
    origin: Provenance

    @classmethod
    def of(
        cls,
        catalog: CatalogReader,
        since: int,
        until: int | None = None,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        region: Region | str | None = None,
        key: Sequence[str] | None = None,
    ) -> Self:
        """Resolve a comparison; parameters and errors as for `Catalog.changes`."""
        until = catalog.version if until is None else until
        for name, number in (("since", since), ("until", until)):
            if isinstance(number, bool) or not isinstance(number, Integral):
                raise VersionNotFoundError(
                    f"{catalog.uri}: {name} is {number!r}, not the number of a version; there are: "
                    f"{', '.join(map(str, catalog.versions()))}"
                )
        numbers = dict.fromkeys((until, since))
        opened = {
            number: catalog.metadata
            if number == catalog.version
            else CatalogReader.open(catalog.opened_at, number).metadata
            for number in ([] if catalog.metadata.is_foreign else numbers)
        }
        old, new = (opened.get(number, catalog.metadata) for number in (since, until))
        within = None if region is None else region_of(region)
        feed = ChangeFeed.of(catalog.storage, old, new, columns, filters, within, key)
        return cls(since, until, feed, origin_of(new, region, filters, since))

    @property
    def schema(self) -> pa.Schema:
        """`_change`, `_healpix_29`, and the columns of the rows."""
        return self.feed.schema

    def __repr__(self) -> str:
        key = f", key={list(self.feed.key)}" if self.feed.key else ""
        return f"CatalogChanges(since={self.since}, until={self.until}, columns={self.schema.names}{key})"

    def tables(self) -> Iterator[pa.Table]:
        """The changes along the curve, table by table; the next ones are read meanwhile.

        With a key, the first is given when all are known: they wait in a temporary file.
        """
        return self.feed.tables()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes batch by batch along the curve, for what does not fit into memory."""
        return (batch for table in self.tables() for batch in table.to_batches())

    def to_reader(self) -> pa.RecordBatchReader:
        """The changes as a stream of Arrow, which can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The stream for any library that takes one; `pyarrow.table(changes)` does, for instance."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """All changes as a table, ordered by `_healpix_29`; at one position, what went stands first."""
        return pa.concat_tables([self.schema.empty_table(), *self.tables()])

    def to_pandas(self) -> pd.DataFrame:
        """All changes as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def counts(self) -> dict[str, int]:
        """How many rows there are of each kind: `delete`, `update_before`, `update_after`, `insert`."""
        found = dict.fromkeys(KINDS, 0)
        for table in self.tables():
            for kind in KINDS:
                found[kind] += pc.sum(pc.equal(table[CHANGE_COLUMN], kind)).as_py() or 0
        return found

    def export(self, uri: str | Path, *, format: str | None = None, overwrite: bool = False) -> Exported:
        """Write the changes to a Parquet, CSV, FITS or VOTable file, whole or not at all.

        Parameters, what is returned and errors are those of `Catalog.export`.
        """
        kind = ExportFormat.of(str(uri), format)
        check_export(str(uri), self.schema, kind, overwrite=overwrite)
        return write_export(str(uri), self.schema, self.tables(), kind, self.origin, overwrite=overwrite)

    def to_spark(self, spark: Any) -> Any:
        """The changes as a Spark DataFrame, lazily; tasks compare stretches of the curve.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession
            Its executors need hipslake.

        Returns
        -------
        pyspark.sql.DataFrame
            The same rows, in no order. With a key, rows that differ go through one shuffle by their key.
        """
        from hipslake.spark.change_frames import changes_frame

        return changes_frame(spark, self.feed)
