"""Rows of a catalog as one file, for those who take them elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hipslake.catalog.changes.change_feed import ChangeFeed
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.moc_files import region_of
from hipslake.catalog.reading import Part, parts, read_parts
from hipslake.catalog.selection import Selection, select
from hipslake.errors import SchemaMismatchError
from hipslake.exports.provenance import Provenance
from hipslake.exports.writers import Exported, check_export, write_export
from hipslake.specs.export_formats import ExportFormat
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.regions import Region

if TYPE_CHECKING:
    from hipslake.catalog.catalog_reader import CatalogReader


def origin_of(
    metadata: CatalogMetadata, region: Region | str | None, filters: Any, since: int | None = None
) -> Provenance:
    """Where rows of a version come from, or changes since one, for the file that they are written to."""
    return Provenance(
        metadata.catalog,
        metadata.version,
        metadata.description,
        metadata.attribution,
        region="" if region is None else str(region),
        filters="" if filters is None else str(filters),
        changes_since=since,
    )


@dataclass(frozen=True)
class Export:
    """An export: the rows, or what changed in them, the format and the destination.

    Attributes
    ----------
    catalog : CatalogReader
    uri : str
    kind : ExportFormat
    selection : Selection
    origin : Provenance
    feed : ChangeFeed or None
        Of an export of changes.
    """

    catalog: CatalogReader
    uri: str
    kind: ExportFormat
    selection: Selection
    origin: Provenance
    feed: ChangeFeed | None = None

    @classmethod
    def of(
        cls,
        catalog: CatalogReader,
        uri: str,
        *,
        region: Region | str | None = None,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        format: str | None = None,
    ) -> Export:
        """Resolve an export; parameters and errors as of `Catalog.export`."""
        kind = ExportFormat.of(uri, format)
        within = None if region is None else region_of(region)
        selection = select(catalog.metadata, columns, filters, region=within)
        if not len(selection.schema):
            raise SchemaMismatchError("export: no column is asked for; name some, or none at all for all")
        return cls(catalog, uri, kind, selection, origin_of(catalog.metadata, region, filters))

    @classmethod
    def of_changes(
        cls,
        catalog: CatalogReader,
        since: int,
        uri: str,
        *,
        region: Region | str | None = None,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        key: Sequence[str] | None = None,
        format: str | None = None,
    ) -> Export:
        """Resolve an export of what changed since a version.

        Parameters and errors are those of `Catalog.changes` and `Catalog.export`.
        """
        kind = ExportFormat.of(uri, format)
        within = None if region is None else region_of(region)
        old = catalog if since == catalog.version else type(catalog).open(catalog.opened_at, since)
        feed = ChangeFeed.of(catalog.storage, old.metadata, catalog.metadata, columns, filters, within, key)
        origin = origin_of(catalog.metadata, region, filters, since)
        return cls(catalog, uri, kind, feed.new.selection, origin, feed)

    @property
    def schema(self) -> pa.Schema:
        """What is written."""
        return self.selection.schema if self.feed is None else self.feed.schema

    @property
    def bytes(self) -> int:
        """Of the leaf files that are read."""
        return sum(part.bytes for part in self.parts()) if self.feed is None else self.feed.bytes

    def check(self, *, overwrite: bool) -> None:
        """Look whether it can be written; errors as of `check_export`."""
        check_export(self.uri, self.schema, self.kind, overwrite=overwrite)

    def parts(self) -> list[Part]:
        """The stretches of the curve that are read."""
        groups, inside = list(self.selection.columns), self.selection.inside(None)
        return parts(self.catalog.storage, self.catalog.metadata, groups, inside)

    def rows(self, pixels: Intervals | None = None) -> Iterator[pa.Table]:
        """The rows, or those of them inside some pixels, along the curve; of changes all."""
        if self.feed is not None:
            return self.feed.tables()
        return read_parts(self.catalog.storage, self.catalog.metadata, self.selection, pixels)

    def write(
        self, rows: Iterable[pa.Table], *, overwrite: bool, note: Callable[[str], None] = lambda mark: None
    ) -> Exported:
        """Write the rows; parameters and errors as of `write_export`."""
        return write_export(
            self.uri, self.schema, rows, self.kind, self.origin, overwrite=overwrite, note=note
        )
