"""One of two versions that are compared: its rows in the files that the other one does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.catalog.foreign_rows import check_rows
from hipslake.catalog.joined_groups import selected, side_by_side
from hipslake.catalog.leaf_fetching import fetched_each, read_of
from hipslake.catalog.leaf_form import given_schema
from hipslake.catalog.leaf_reads import LeafRead
from hipslake.catalog.leaf_rows import ALONG
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.catalog.schema import ROW_COLUMN, ROW_IDENTITY
from hipslake.catalog.selection import Selection
from hipslake.catalog.validity import validity_of
from hipslake.clustering.checksum import row_hashes
from hipslake.engine.reordering import in_sort_order
from hipslake.errors import VerificationError
from hipslake.predicates.predicate_tree import Predicate
from hipslake.sources.conforming import conform
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage
from hipslake.versions.vacuumed_versions import vacuum_told


class RowIdentities(NamedTuple):
    """What identifies rows: `_healpix_29` and `_row`, int64[n] each.

    `end` is a hash, uint64[n], of the end of the interval in which each is valid, where a catalog has such
    intervals: the only value of a row that nights of others change. Elsewhere it is 0.
    """

    h29: NDArray[np.int64]
    row: NDArray[np.int64]
    end: NDArray[np.uint64]

    def taken(self, chosen: NDArray[np.bool_]) -> RowIdentities:
        """Those of some rows."""
        return RowIdentities(self.h29[chosen], self.row[chosen], self.end[chosen])


class GroupFiles(NamedTuple):
    """The files of a column group that are read, along the curve.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the files; columns that came after a file was written are null.
    start, stop : int64[n]
        The order-29 pixels, [start, stop), of each.
    paths : tuple of str
    rows : tuple of int
    sizes : tuple of int
        Bytes of each.
    """

    schema: pa.Schema
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    paths: tuple[str, ...]
    rows: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(self.sizes)

    @classmethod
    def of(cls, schema: pa.Schema, files: pa.Table) -> Self:
        """Files as `PARTITION_SCHEMA`."""
        columns = (tuple(files[name].to_pylist()) for name in ("path", "rows", "bytes"))
        return cls(schema, *leaf_spans(files), *columns)

    def near(self, inside: Intervals) -> NDArray[np.int64]:
        """The numbers of the files that may hold rows of some intervals."""
        if not len(inside):
            return np.empty(0, np.int64)
        low = int(np.searchsorted(self.stop, inside.start[0], side="right"))
        high = int(np.searchsorted(self.start, inside.stop[-1]))
        return low + np.flatnonzero(inside.touch(self.start[low:high], self.stop[low:high]))


@dataclass(frozen=True)
class ComparedVersion:
    """The rows of a version that lie in files which the other version does not have. It travels to tasks.

    Attributes
    ----------
    storage : Storage
        At the catalog's root, with what is mounted there.
    version : int
    selection : Selection
        The columns that are read, `_healpix_29` among them, the filter and the region.
    files : dict of str to GroupFiles
        Of every group that is read, those that the other version does not have.
    identifying : str
        The group whose files tell which rows there are.
    numbered : bool
        Whether `_row` is stored.
    end : str or None
        The column of the ends of intervals of validity, if the catalog has them.
    """

    storage: Storage
    version: int
    selection: Selection
    files: dict[str, GroupFiles]
    identifying: str
    numbered: bool
    end: str | None

    @classmethod
    def of(
        cls,
        storage: Storage,
        metadata: CatalogMetadata,
        selection: Selection,
        files: dict[str, pa.Table],
        identifying: str,
        *,
        numbered: bool,
    ) -> Self:
        """The version of some metadata, of which files are read as `PARTITION_SCHEMA` per group."""
        of_groups = {
            group: GroupFiles.of(metadata.schema_of(group), files[group]) for group in selection.columns
        }
        validity = validity_of(metadata)
        end = validity.end if validity is not None else None
        return cls(storage, metadata.version, selection, of_groups, identifying, numbered, end)

    def identities(self, inside: Intervals) -> RowIdentities:
        """What identifies the rows in some intervals, whatever the filter; only where `_row` is stored.

        Raises
        ------
        VerificationError
            A leaf file is missing or damaged.
        VersionNotFoundError
            A leaf file is gone, as the version was vacuumed.
        """
        with vacuum_told(self.storage, self.version):
            columns = [*ROW_IDENTITY, *([self.end] if self.end is not None else [])]
            rows = self._read(self.identifying, columns, inside, None)
        ends = np.zeros(rows.num_rows, np.uint64) if self.end is None else row_hashes(rows.select([self.end]))
        h29, row = (rows[name].to_numpy() for name in ROW_IDENTITY)
        return RowIdentities(h29, row, ends)

    def rows(self, inside: Intervals, chosen: RowIdentities | None = None) -> pa.Table:
        """The rows in some intervals that pass the filter and lie in the region, as `selection.schema`.

        They are ordered by (`_healpix_29`, `_row`).

        Parameters
        ----------
        inside : Intervals
        chosen : RowIdentities, optional
            Only these; by default all.

        Raises
        ------
        VerificationError
            A leaf file is missing or damaged, or column groups do not hold the same rows.
        VersionNotFoundError
            A leaf file is gone, as the version was vacuumed.
        """
        with vacuum_told(self.storage, self.version):
            return self._rows(inside, chosen)

    def _rows(self, inside: Intervals, chosen: RowIdentities | None) -> pa.Table:
        selection, several = self.selection, len(self.files) > 1
        condition = None if several else selection.filter
        if chosen is not None:
            inside = Intervals.union(chosen.h29, chosen.h29 + 1)
            wanted = np.sort(chosen.row)
        identity = list(ROW_IDENTITY) if self.numbered else [HEALPIX_COLUMN]
        joined: pa.Table | None = None
        for group, columns in selection.columns.items():
            needed = list(dict.fromkeys([*identity, *columns]))
            table = self._read(group, needed, inside, condition)
            if chosen is not None:
                table = table.filter(pa.array(_among(table[ROW_COLUMN].to_numpy(), wanted)))
                if condition is None and table.num_rows != len(wanted):
                    raise self._differ(group)
            if len(self.files[group].paths) > 1:
                table = in_sort_order(table, ALONG[: len(identity)])
            found = table if joined is None else side_by_side(joined, table)
            if found is None:
                raise self._differ(group)
            joined = found
        assert joined is not None, "a group is read"
        return selected(joined, selection, selection.cut, filtered=not several)

    def _differ(self, group: str) -> VerificationError:
        return VerificationError(
            f"{self.storage.uri()}, version {self.version}: column group {group!r} does not hold the same "
            f"rows as {self.identifying!r}; Catalog.verify() tells more"
        )

    def _read(
        self, group: str, columns: list[str], inside: Intervals, condition: Predicate | None
    ) -> pa.Table:
        """Columns of the rows of a group in some intervals, file by file."""
        files = self.files[group]
        given = pa.schema([given_schema(files.schema).field(name) for name in columns])
        tables = [given.empty_table()]
        chosen = files.near(inside).tolist()
        reads = [
            LeafRead(
                self.storage,
                files.paths[number],
                files.schema,
                columns,
                condition,
                inside.within(int(files.start[number]), int(files.stop[number])),
                size=files.sizes[number],
                rows=files.rows[number],
            )
            for number in chosen
        ]
        for number, read in zip(chosen, fetched_each(self.storage, map(read_of, reads)), strict=True):
            path = files.paths[number]
            check_rows(self.storage, path, files.schema, files.rows[number])
            rows = read.table()
            batches = [conform(batch, given, self.storage.uri(path)) for batch in rows.to_batches()]
            tables.append(pa.Table.from_batches(batches, given))
        return pa.concat_tables(tables)


def _among(numbers: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which numbers are among some that ascend, bool[n]."""
    if not len(some):
        return np.zeros(len(numbers), bool)
    at = np.minimum(np.searchsorted(some, numbers), len(some) - 1)
    found: NDArray[np.bool_] = some[at] == numbers
    return found
