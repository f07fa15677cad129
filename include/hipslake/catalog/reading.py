"""Reading the rows of a version: leaf by leaf along the curve, column groups joined again by `_row`.

Leaves of different groups are nested or disjoint, and each is ordered by (`_healpix_29`, `_row`). So the
leaves of any group inside the coarsest leaf there, one after the other, hold the same rows in the same order
as those of any other group: together they are a part, and parts are read one after the other.

All files of a part hold the same rows in the same order, whatever their group: the join is to lay their
columns side by side, after a look at `_row`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.foreign_rows import check_rows
from hipslake.catalog.leaf_rows import ALONG, leaf_rows_at, read_leaf
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import RegionCut, Selection
from hipslake.engine.reordering import in_order, in_sort_order
from hipslake.engine.this_process import read_ahead
from hipslake.errors import VerificationError
from hipslake.predicates.evaluation import passing
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN, MAX_ORDER, Pixel
from hipslake.storage.folder import Storage
from hipslake.versions.vacuumed_versions import vacuum_told


@dataclass
class Part:
    """The leaf files, per group, that hold the rows of one stretch of the curve."""

    start: int  # order-29 pixels [start, stop)
    stop: int
    paths: dict[str, list[str]]
    gathered: set[str]  # groups of which a leaf has several files here
    file_rows: dict[str, list[int]]  # of each of these files
    bytes: int = 0  # of all these files

    @property
    def rows(self) -> int:
        """How many there are: the same in every group."""
        return max(map(sum, self.file_rows.values()), default=0)

    @property
    def pixel(self) -> Pixel:
        """The stretch as a pixel."""
        order = MAX_ORDER - ((self.stop - self.start).bit_length() - 1) // 2
        return Pixel(order, self.start >> (2 * (MAX_ORDER - order)))


def parts(
    storage: Storage, metadata: CatalogMetadata, groups: list[str], pixels: Intervals | None = None
) -> list[Part]:
    """The stretches of the curve that are read one after the other: the coarsest leaves of all groups.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    groups : list of str
        Column groups to read.
    pixels : Intervals, optional
        Leaves that hold nothing of these are left out.
    """
    tables = [
        metadata.partitions(group, storage)
        if pixels is None
        else metadata.group(group).table_near(storage, pixels.start, pixels.stop)
        for group in groups
    ]
    start, stop = zip(*map(leaf_spans, tables), strict=True)
    first, last = coarsest(np.concatenate(start), np.concatenate(stop))
    found = [
        Part(int(a), int(b), {group: [] for group in groups}, set(), {group: [] for group in groups})
        for a, b in zip(first, last, strict=True)
    ]
    for group, table, begin, end in zip(groups, tables, start, stop, strict=True):
        chosen = np.arange(len(begin)) if pixels is None else np.flatnonzero(pixels.touch(begin, end))
        homes = np.searchsorted(first, begin[chosen], side="right") - 1
        paths = table["path"].take(pa.array(chosen)).to_pylist()
        sizes = table["bytes"].to_numpy()[chosen].tolist()
        rows = table["rows"].to_numpy()[chosen].tolist()
        for home, path, size, count in zip(homes.tolist(), paths, sizes, rows, strict=True):
            found[home].paths[group].append(path)
            found[home].file_rows[group].append(count)
            found[home].bytes += size
        for home in homes[1:][begin[chosen][1:] == begin[chosen][:-1]].tolist():
            found[home].gathered.add(group)
    return [part for part in found if any(part.paths.values())]


def coarsest(
    start: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of nested or disjoint intervals, those that lie in no other; sorted."""
    along = np.lexsort((-stop, start))
    start, stop = start[along], stop[along]
    reach = np.maximum.accumulate(stop)
    outer = np.concatenate([[True], start[1:] >= reach[:-1]]) if len(start) else np.empty(0, bool)
    return start[outer], stop[outer]


@dataclass(frozen=True)
class PartReader:
    """Reads the parts of a selection. It travels to tasks and other processes.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    selection : Selection
    schemas : dict of str to pyarrow.Schema
        Of the leaf files of each group that is read.
    pixels : Intervals or None
        Only rows inside these.
    version : int
        Of the catalog that is read, for errors.
    """

    storage: Storage
    selection: Selection
    schemas: dict[str, pa.Schema]
    pixels: Intervals | None
    version: int

    @classmethod
    def of(
        cls,
        storage: Storage,
        metadata: CatalogMetadata,
        selection: Selection,
        pixels: Intervals | None = None,
    ) -> PartReader:
        """The reader of a selection; parameters as for `read_parts`."""
        schemas = {group: metadata.schema_of(group) for group in selection.columns}
        return cls(storage, selection, schemas, selection.inside(pixels), metadata.version)

    def parts(self, metadata: CatalogMetadata) -> list[Part]:
        """The parts that may hold rows of the selection."""
        with vacuum_told(self.storage, self.version):
            return parts(self.storage, metadata, list(self.selection.columns), self.pixels)

    def takes_whole(self, part: Part) -> bool:
        """Whether every row of a part is one of the selection, as is known without a look at them."""
        return self.selection.filter is None and self._cuts(part) == (None, None)

    def read(self, part: Part) -> pa.Table:
        """The rows of a part, ordered by (`_healpix_29`, `_row`).

        Raises
        ------
        VerificationError
            A leaf file is missing or damaged, or the groups do not hold the same rows.
        VersionNotFoundError
            A leaf file is gone, as the version was vacuumed.
        """
        with vacuum_told(self.storage, self.version):
            return self._table(part, None)

    def read_rows(self, part: Part, numbers: NDArray[np.int64]) -> pa.Table:
        """Some of the rows that `read` gives, from as few row groups as hold them.

        Parameters
        ----------
        part : Part
        numbers : int64[n]
            Places among the rows that `read` gives, ascending.
        """
        if part.gathered or not self.takes_whole(part):
            return in_order(self.read(part), numbers)
        with vacuum_told(self.storage, self.version):
            return self._table(part, numbers)

    def _cuts(self, part: Part) -> tuple[Intervals | None, RegionCut | None]:
        """What rows of the part are held against: pixels, and the region; None where all of them pass."""
        inside = None if self.pixels is None else self.pixels.within(part.start, part.stop)
        cut = self.selection.cut
        if cut is not None and inside is not None and cut.is_sure_of(inside):
            cut = None
        if (
            inside is not None
            and inside.start.tolist() == [part.start]
            and inside.stop.tolist() == [part.stop]
        ):
            inside = None  # all of it
        return inside, cut

    def _table(self, part: Part, numbers: NDArray[np.int64] | None) -> pa.Table:
        selection = self.selection
        inside, cut = self._cuts(part)
        several = len(selection.columns) > 1
        condition = selection.filter if not several else None
        tables = {}
        for group, columns in selection.columns.items():
            needed = [name for name in columns if cut is not None or name not in selection.cut_only]
            gathered = group in part.gathered
            for key, is_needed in (
                (HEALPIX_COLUMN, inside is not None or cut is not None or gathered),
                (ROW_COLUMN, several or gathered),
            ):
                if is_needed and key not in needed:
                    needed.append(key)
            schema = self.schemas[group]
            for path, rows in zip(part.paths[group], part.file_rows[group], strict=True):
                check_rows(self.storage, path, schema, rows)
            if numbers is None:
                leaves = [
                    read_leaf(self.storage, path, schema, needed, condition, inside)
                    for path in part.paths[group]
                ]
            else:
                leaves = self._leaf_rows(part, group, needed, numbers)
            table = _one_table(leaves, schema) if leaves else None
            if table is not None and gathered:
                table = in_sort_order(table, ALONG)
            tables[group] = table
        found = _joined_groups(self.storage, part, tables, selection)
        if found is None:
            return selection.schema.empty_table()
        return selected(found, selection, cut, filtered=not several).cast(selection.schema)

    def _leaf_rows(
        self, part: Part, group: str, columns: list[str], numbers: NDArray[np.int64]
    ) -> list[pa.Table]:
        """The rows of some numbers within a part, from each file of a group that has any."""
        ends = np.cumsum(part.file_rows[group])
        of_file = np.searchsorted(ends, numbers, side="right")
        found = []
        for at in np.unique(of_file).tolist() or [0]:
            before = int(ends[at - 1]) if at else 0
            wanted = numbers[of_file == at] - before
            path = part.paths[group][at]
            found.append(leaf_rows_at(self.storage, path, self.schemas[group], columns, wanted))
        return found


def read_parts(
    storage: Storage,
    metadata: CatalogMetadata,
    selection: Selection,
    pixels: Intervals | None = None,
) -> Iterator[pa.Table]:
    """The rows of a selection, as one table per part, ordered by (`_healpix_29`, `_row`).

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    selection : Selection
    pixels : Intervals, optional
        Only rows inside these.

    Raises
    ------
    VerificationError
        A leaf file is missing or damaged, or the groups do not hold the same rows.
    """
    reader = PartReader.of(storage, metadata, selection, pixels)
    yield from read_ahead(reader.read, reader.parts(metadata))


def _one_table(leaves: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """Files of one group together; older ones may have columns of which newer ones also hold nulls."""
    common = pa.schema([schema.field(name) for name in leaves[0].schema.names])
    return pa.concat_tables([leaf.cast(common) for leaf in leaves])


def _joined_groups(
    storage: Storage, part: Part, tables: dict[str, pa.Table | None], selection: Selection
) -> pa.Table | None:
    """One table with the columns of all groups, whose rows are the same in the same order; None: no rows.

    A group whose leaves are finer has no leaf, and so no table, where there is no row.
    """
    missing = any(table is None for table in tables.values())
    if missing and not any(table is not None and table.num_rows for table in tables.values()):
        return None
    first, *others = tables
    joined = tables[first]
    for other in others:
        table = tables[other]
        found = None if joined is None or table is None else side_by_side(joined, table)
        if found is None:
            paths = part.paths[first][:1] + part.paths[other][:1]
            raise VerificationError(
                f"{storage.uri()}: groups {first!r} and {other!r} do not hold the same rows around "
                f"{' and '.join(paths)}; Catalog.verify() tells more"
            )
        joined = found
    return joined


def side_by_side(rows: pa.Table, others: pa.Table) -> pa.Table | None:
    """Columns of two groups side by side; None if, by `_row`, they do not hold the same rows so."""
    if not rows[ROW_COLUMN].equals(others[ROW_COLUMN]):
        return None
    for name in others.column_names:
        if name not in rows.column_names:
            rows = rows.append_column(others.schema.field(name), others[name])
    return rows


def selected(rows: pa.Table, selection: Selection, cut: RegionCut | None, *, filtered: bool) -> pa.Table:
    """The rows and columns of a selection, of rows with all that it needs.

    Parameters
    ----------
    rows : pyarrow.Table
    selection : Selection
    cut : RegionCut or None
        What is left to be looked at of its region.
    filtered : bool
        Whether all of them pass its filter.
    """
    if cut is not None:
        rows = cut.inside(rows)
    if selection.filter is not None and not filtered:
        rows = passing(selection.filter, rows)
    return rows.select(selection.schema.names)
