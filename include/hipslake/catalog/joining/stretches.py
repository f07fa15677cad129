"""The rows of a catalog in a stretch of the curve: those that pass a filter, with some of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from hipslake.catalog.leaf_rows import Wanted, leaf_batches, read_leaf
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.reading import read_parts
from hipslake.catalog.selection import Selection, select
from hipslake.predicates.predicate_tree import Predicate
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, starts, stops
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class Stretches:
    """Reads a catalog by stretches of the curve.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    columns : sequence of str
        Without `_healpix_29`, which always comes first.
    filter : Predicate or None
        On any columns; only rows that pass it are read. None: all.
    """

    storage: Storage
    metadata: CatalogMetadata
    columns: Sequence[str]
    filter: Predicate | None = None

    @cached_property
    def selection(self) -> Selection:
        """The columns, and the groups that hold them and what the filter asks for.

        Raises
        ------
        SchemaMismatchError
            There is no such column.
        """
        return select(self.metadata, [HEALPIX_COLUMN, *self.columns], self.filter)

    @property
    def schema(self) -> pa.Schema:
        """Of what is read."""
        return self.selection.schema

    @property
    def group(self) -> str | None:
        """The only column group that is read, for the columns and the filter; None if there are several."""
        groups = list(self.selection.columns)
        return groups[0] if len(groups) == 1 else None

    def read(self, start: int, stop: int, *, wanted: Wanted | None = None) -> pa.Table:
        """The rows in [start, stop), order-29 pixels, ordered by (`_healpix_29`, `_row`).

        Parameters
        ----------
        start, stop : int
        wanted : callable, optional
            Of the row groups there, those that are needed; the others may be left out.
        """
        inside = Intervals.union([start], [stop])
        if self.group is None or self.metadata.gathers:
            tables = list(read_parts(self.storage, self.metadata, self.selection, inside))
            return pa.concat_tables(tables) if tables else self.schema.empty_table()
        files = self._files_near(inside)
        first = starts(files["order"].to_numpy(), files["npix"].to_numpy())
        last = stops(files["order"].to_numpy(), files["npix"].to_numpy())
        met = inside.touch(first, last)
        near = files.filter(pa.array(met))
        return self.read_files(near, (start, stop), wanted=wanted)

    def read_files(
        self, files: pa.Table, stretch: tuple[int, int], *, wanted: Wanted | None = None
    ) -> pa.Table:
        """The rows of some files of the only group, or of its margins, one file after the other.

        Parameters
        ----------
        files : pyarrow.Table
            As `PARTITION_SCHEMA`.
        stretch : (int, int)
            Only rows in [start, stop), order-29 pixels.
        wanted : callable, optional
            As for `read`.
        """
        sized = zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True)
        tables = [self._read_file(path, size, stretch, wanted) for path, size in sized]
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def _read_file(self, path: str, size: int, stretch: tuple[int, int], wanted: Wanted | None) -> pa.Table:
        if self.filter is None:
            batches = leaf_batches(self.storage, path, size, self.schema, stretch, wanted=wanted)
            return pa.Table.from_batches(batches, self.schema)
        start, stop = stretch
        rows = read_leaf(
            self.storage,
            path,
            self.metadata.schema_of(self.group),
            self.schema.names,
            self.filter,
            Intervals.union([start], [stop]),
            wanted=wanted,
        )
        return rows.cast(self.schema)

    def _files_near(self, inside: Intervals) -> pa.Table:
        group = self.metadata.group(self.group)
        return (
            self._all_files
            if group.sidecars is None
            else group.table_near(self.storage, inside.start, inside.stop)
        )

    @cached_property
    def _all_files(self) -> pa.Table:
        return self.metadata.partitions(self.group, self.storage)
