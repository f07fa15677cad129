"""Stretches of the curve with about equal rows, and the rows of a catalog in one of them.

Large leaves are cut, and small ones are put together. Read are the rows that pass a filter,
with some of their columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.foreign_rows import check_rows
from hipslake.catalog.joining.rows_inside import rows_inside
from hipslake.catalog.leaf import read_footer
from hipslake.catalog.leaf_form import form_of, in_form_of
from hipslake.catalog.leaf_opening import read_errors
from hipslake.catalog.leaf_reads import Wanted
from hipslake.catalog.leaf_rows import leaf_batches, read_leaf
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans, summed_by_leaf
from hipslake.catalog.reading import read_parts
from hipslake.catalog.selection import Selection, select
from hipslake.planning.splits import assign_targets
from hipslake.predicates.predicate_tree import Predicate
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class StretchPlan:
    """Disjoint stretches, along the curve; together they hold every row that was planned for.

    Attributes
    ----------
    start, stop : int64[n]
        Order-29 pixels, [start, stop).
    rows : int64[n]
        In each; about, where a leaf was cut.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)


_TEXT_BYTES = 32  # of a value whose type does not say


def row_width(schema: pa.Schema) -> int:
    """Bytes of a row in memory, about."""
    return sum(
        max(1, field.type.bit_width // 8) if pa.types.is_primitive(field.type) else _TEXT_BYTES
        for field in schema
    )


def plan_stretches(
    storage: Storage,
    metadata: CatalogMetadata,
    most_rows: int,
    *,
    only: Intervals | None = None,
) -> StretchPlan:
    """Plan stretches of about `most_rows` rows, a few more at most.

    Parameters
    ----------
    storage : Storage
        At the catalog's root. Only the footers of leaves with more rows than that are read.
    metadata : CatalogMetadata
    most_rows : int
    only : Intervals, optional
        Leaves that hold nothing of these are left out.
    """
    leaves = summed_by_leaf(metadata.partitions(None, storage))
    start, stop = leaf_spans(leaves)
    if only is not None:
        met = only.touch(start, stop)
        leaves, start, stop = leaves.filter(pa.array(met)), start[met], stop[met]
    rows, paths = leaves["rows"].to_numpy(), leaves["path"].to_pylist()
    pieces: list[tuple[int, int, int]] = []
    for at, path in enumerate(paths):
        whole = int(start[at]), int(stop[at]), int(rows[at])
        few = rows[at] <= most_rows or metadata.is_foreign  # whose leaves are read whole
        pieces += [whole] if few else _cut(storage, path, whole, most_rows)
    begin, end, held = np.array(pieces, np.int64).reshape(-1, 3).T
    task = assign_targets(held, most_rows)
    first = np.flatnonzero(np.append(True, np.diff(task) > 0))[: len(task)]
    last = np.append(first[1:], len(task)) - 1 if len(first) else first
    return StretchPlan(begin[first], end[last], np.add.reduceat(held, first) if len(first) else held)


def _cut(
    storage: Storage, path: str, leaf: tuple[int, int, int], most_rows: int
) -> Iterator[tuple[int, int, int]]:
    """Cut a leaf where row groups of (one of) its files begin."""
    start, stop, rows = leaf
    footer = read_footer(storage, path)
    chunks = ColumnChunks(footer)
    with read_errors(storage, path):
        known = [chunks(number, 0).statistics for number in range(footer.num_row_groups)]
    if any(statistics is None or not statistics.has_min_max for statistics in known):
        yield leaf
        return
    share = rows / max(footer.num_rows, 1)  # of all files of the leaf
    cuts, held, taken = [start], [], 0.0
    for number, statistics in enumerate(known):
        size = footer.row_group(number).num_rows * share
        if taken and taken + size > most_rows and statistics.min > cuts[-1]:
            cuts.append(statistics.min)
            held.append(int(taken))
            taken = 0.0
        taken += size
    held.append(int(taken))
    for (low, high), count in zip(pairwise([*cuts, stop]), held, strict=True):
        yield low, high, count


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
    leaf_schema : pyarrow.Schema or None
        Of the files that `read_files` reads; None: as of the leaves of the only group.
    """

    storage: Storage
    metadata: CatalogMetadata
    columns: Sequence[str]
    filter: Predicate | None = None
    leaf_schema: pa.Schema | None = None

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
            return self.inside(inside)
        files = self._files_near(inside)
        near = files.filter(pa.array(inside.touch(*leaf_spans(files))))
        return self.read_files(near, (start, stop), wanted=wanted)

    def inside(self, stretches: Intervals) -> pa.Table:
        """The rows in some stretches, ordered by (`_healpix_29`, `_row`), from any number of groups."""
        tables = read_parts(self.storage, self.metadata, self.selection, stretches)
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def near(self, places: Intervals) -> pa.Table:
        """The rows in many short stretches, ordered as those of `inside`: it opens row groups around them."""
        of_several = self.group is None or self.metadata.gathers
        if of_several or self.filter is not None or form_of(self._leaf_schema) is not None:
            return self.inside(places)
        files = self._files_near(places)
        files = files.filter(pa.array(places.touch(*leaf_spans(files))))
        sized = zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True)
        batches = [
            batch
            for path, size in sized
            for batch in rows_inside(self.storage, path, size, self.schema, places)
        ]
        return pa.Table.from_batches(batches, self.schema)

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
        leaves = self._leaf_schema
        for path, rows in zip(files["path"].to_pylist(), files["rows"].to_pylist(), strict=True):
            check_rows(self.storage, path, leaves, rows)
        sized = zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True)
        tables = [self._read_file(path, size, stretch, wanted) for path, size in sized]
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def _read_file(self, path: str, size: int, stretch: tuple[int, int], wanted: Wanted | None) -> pa.Table:
        leaves = self._leaf_schema
        if self.filter is None:
            schema = in_form_of(self.schema, leaves)
            batches = leaf_batches(self.storage, path, size, schema, stretch, wanted=wanted)
            return pa.Table.from_batches(batches, self.schema)
        start, stop = stretch
        rows = read_leaf(
            self.storage,
            path,
            leaves,
            self.schema.names,
            self.filter,
            Intervals.union([start], [stop]),
            wanted=wanted,
            size=size,
        )
        return rows.cast(self.schema)

    @property
    def _leaf_schema(self) -> pa.Schema:
        return self.metadata.schema_of(self.group) if self.leaf_schema is None else self.leaf_schema

    def _files_near(self, inside: Intervals) -> pa.Table:
        group = self.metadata.group(self.group)
        if group.is_listed:
            return self._all_files
        return group.table_near(self.storage, inside.start, inside.stop)

    @cached_property
    def _all_files(self) -> pa.Table:
        return self.metadata.partitions(self.group, self.storage)
