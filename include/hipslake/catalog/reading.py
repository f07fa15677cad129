"""Reading the rows of a version: leaf by leaf along the curve, column groups joined again by `_row`.

Leaves of different groups are nested or disjoint, and each is ordered by (`_healpix_29`, `_row`). So the
leaves of any group inside the coarsest leaf there, one after the other, hold the same rows in the same order
as those of any other group: together they are a part, and parts are read one after the other.

All files of a part hold the same rows in the same order, whatever their group: the join is to lay their
columns side by side, after a look at `_row`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.foreign_rows import check_rows
from hipslake.catalog.joined_groups import joined_groups, one_table, selected
from hipslake.catalog.leaf_fetching import FetchedRead, Read, fetched, read_of
from hipslake.catalog.leaf_reads import FooterRead, LeafRead, lies_elsewhere
from hipslake.catalog.leaf_rows import ALONG
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import RegionCut, Selection
from hipslake.engine.reordering import in_order, in_sort_order
from hipslake.engine.this_process import read_ahead
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
    file_bytes: dict[str, list[int]]
    reads: dict[str, list[FetchedRead]] | None = None  # those that `PartReader.ahead` has begun

    @property
    def bytes(self) -> int:
        """Of all these files."""
        return sum(map(sum, self.file_bytes.values()))

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
        Part(int(a), int(b), _lists(groups), set(), _lists(groups), _lists(groups))
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
            found[home].file_bytes[group].append(size)
        for home in homes[1:][begin[chosen][1:] == begin[chosen][:-1]].tolist():
            found[home].gathered.add(group)
    return [part for part in found if any(part.paths.values())]


def _lists(groups: list[str]) -> dict[str, list[Any]]:
    return {group: [] for group in groups}


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
        if self._reads_whole(part):
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

    def ahead(
        self,
        parts: Iterable[Part],
        *,
        numbers: Sequence[NDArray[np.int64]] | None = None,
        unless: Callable[[Part], bool] = lambda part: False,
        footers: Callable[[Part], bool] = lambda part: False,
    ) -> Iterator[Part]:
        """The parts, to be read one after the other, each once; files in stores are fetched ahead.

        Parameters
        ----------
        parts : iterable of Part
        numbers : sequence of int64[n], optional
            Of each part, what `read_rows` is asked for.
        unless : callable, optional
            Whether a part will not be read.
        footers : callable, optional
            Whether a part is for `footers` alone.
        """
        if not lies_elsewhere(self.storage):
            yield from parts
            return
        wanted = itertools.repeat(None) if numbers is None else numbers

        def works() -> Iterator[tuple[tuple[Part, list[str]], list[Read]]]:
            for part, rows in zip(parts, wanted, strict=False):
                if unless(part):
                    reads: dict[str, list[Read]] = {}
                elif footers(part):
                    reads = self._footer_reads(part)
                else:
                    reads = self._reads(part, None if self._reads_whole(part) else rows)
                pairs = [(group, read) for group, each in reads.items() for read in each]
                yield (part, [group for group, _ in pairs]), [read for _, read in pairs]

        for (part, groups), reads in fetched(works()):
            begun: dict[str, list[FetchedRead]] = {group: [] for group in part.paths}
            for group, read in zip(groups, reads, strict=True):
                begun[group].append(read)
            yield replace(part, reads=begun) if reads else part

    def footers(self, part: Part, group: str) -> list[FooterRead]:
        """The footers of all files of a group in a part.

        Raises
        ------
        VerificationError, VersionNotFoundError
            As of `read`.
        """
        with vacuum_told(self.storage, self.version):
            reads = self._footer_reads(part)[group] if part.reads is None else part.reads[group]
            return [footer for read in reads for footer in read.footers()]

    def _footer_reads(self, part: Part) -> dict[str, list[Read]]:
        return {
            group: [
                read_of(LeafRead(self.storage, path, self.schemas[group], [], size=size, rows=rows))
                for path, size, rows in zip(
                    part.paths[group], part.file_bytes[group], part.file_rows[group], strict=True
                )
            ]
            for group in self.selection.columns
        }

    def _reads_whole(self, part: Part) -> bool:
        """Whether `read_rows` has to look at all rows of a part."""
        return bool(part.gathered) or not self.takes_whole(part)

    def _columns(self, part: Part, group: str, inside: Intervals | None, cut: RegionCut | None) -> list[str]:
        """The columns of a group that are read in a part."""
        selection, gathered = self.selection, group in part.gathered
        needed = [
            name for name in selection.columns[group] if cut is not None or name not in selection.cut_only
        ]
        for key, is_needed in (
            (HEALPIX_COLUMN, inside is not None or cut is not None or gathered),
            (ROW_COLUMN, len(selection.columns) > 1 or gathered),
        ):
            if is_needed and key not in needed:
                needed.append(key)
        return needed

    def _reads(self, part: Part, numbers: NDArray[np.int64] | None) -> dict[str, list[Read]]:
        """The reads of the files of a part, by group; of rows by number, only of files that have any."""
        inside, cut = self._cuts(part)
        condition = self.selection.filter if len(self.selection.columns) == 1 else None
        found: dict[str, list[Read]] = {}
        for group in self.selection.columns:
            schema, columns = self.schemas[group], self._columns(part, group, inside, cut)
            wanted: Mapping[int, NDArray[np.int64] | None] = dict.fromkeys(range(len(part.paths[group])))
            if numbers is not None:
                wanted = _by_file(part.file_rows[group], numbers)
            found[group] = [
                read_of(
                    LeafRead(
                        self.storage,
                        part.paths[group][at],
                        schema,
                        columns,
                        condition,
                        inside,
                        numbers=of_file,
                        size=part.file_bytes[group][at],
                        rows=part.file_rows[group][at],
                    )
                )
                for at, of_file in wanted.items()
            ]
        return found

    def _table(self, part: Part, numbers: NDArray[np.int64] | None) -> pa.Table:
        several_files = sum(map(len, part.paths.values())) > 1
        if part.reads is None and several_files and lies_elsewhere(self.storage):
            [part] = self.ahead([part], numbers=None if numbers is None else [numbers])
        selection = self.selection
        reads = self._reads(part, numbers) if part.reads is None else part.reads
        several = len(selection.columns) > 1
        tables = {}
        for group in selection.columns:
            schema = self.schemas[group]
            for path, rows in zip(part.paths[group], part.file_rows[group], strict=True):
                check_rows(self.storage, path, schema, rows)
            leaves = [read.table() for read in reads[group]]
            table = one_table(leaves, schema) if leaves else None
            if table is not None and group in part.gathered:
                table = in_sort_order(table, ALONG)
            tables[group] = table
        found = joined_groups(self.storage, part.paths, tables)
        if found is None:
            return selection.schema.empty_table()
        _, cut = self._cuts(part)
        return selected(found, selection, cut, filtered=not several).cast(selection.schema)


def _by_file(rows: list[int], numbers: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """Numbers of rows in files that follow each other, by file, as numbers in it; at least of one file."""
    ends = np.cumsum(rows)
    of_file = np.searchsorted(ends, numbers, side="right")
    return {
        at: numbers[of_file == at] - (int(ends[at - 1]) if at else 0)
        for at in np.unique(of_file).tolist() or [0]
    }


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
    yield from read_ahead(reader.read, reader.ahead(reader.parts(metadata)))
