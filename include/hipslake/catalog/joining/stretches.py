"""The rows of a catalog in a stretch of the curve, with some of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.reading import Wanted, leaf_batches, read_parts
from hipslake.catalog.selection import Selection, select
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, starts, stops
from hipslake.storage import Storage


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
    """

    storage: Storage
    metadata: CatalogMetadata
    columns: Sequence[str]

    @cached_property
    def selection(self) -> Selection:
        """The columns, and the groups that hold them; `SchemaMismatchError` where there is no such column."""
        return select(self.metadata, [HEALPIX_COLUMN, *self.columns])

    @property
    def schema(self) -> pa.Schema:
        """Of what is read."""
        return self.selection.schema

    @property
    def group(self) -> str | None:
        """The only column group that is read; None if there are several."""
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
        batches = []
        first = starts(files["order"].to_numpy(), files["npix"].to_numpy())
        last = stops(files["order"].to_numpy(), files["npix"].to_numpy())
        met = inside.touch(first, last)
        near = files.filter(pa.array(met))
        for path, size in zip(near["path"].to_pylist(), near["bytes"].to_pylist(), strict=True):
            batches += leaf_batches(self.storage, path, size, self.schema, (start, stop), wanted=wanted)
        return pa.Table.from_batches(batches, self.schema)

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
