"""What is read of a leaf file: which of its row groups and columns are fetched, and the rows that they give.

A read of a file in a store goes in two steps, so that many files can be asked side by side: the end of the
file, by which row groups are chosen, then the bytes of the chosen columns. Of a file whose end is all of it,
the second step has nothing to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hipslake.catalog.fetched_ranges import RangeToFetch, pieces_of
from hipslake.catalog.leaf_opening import range_of, read_errors
from hipslake.engine.reordering import in_order
from hipslake.errors import NotReadableError, StorageError, StoreTimeoutError, VerificationError
from hipslake.predicates.evaluation import passing
from hipslake.predicates.predicate_tree import Predicate
from hipslake.predicates.pruning import pushed_down
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.column_chunks import FEW_ROWS, ColumnChunks, check_chunks, chunk_ranges
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile
from hipslake.storage.request_loop import MOST_REQUESTS
from hipslake.storage.request_pool import AskedRange, RequestPool

Wanted = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Takes the starts and stops of the row groups of a file, as order-29 pixels; says which are read."""

log = logging.getLogger(__name__)

_FORMAT = ds.ParquetFileFormat()
_TAIL_BYTES = 64 << 10  # of a file: what its footer takes where columns and row groups are few
_WHOLE_BYTES = 256 << 10  # files up to this size are fetched at once, sooner than by two requests
_MOSTLY_READ_BYTES = 1 << 20  # the same at most, where about all of a file is read
_MOST_OF_IT = 0.75  # of a file, by the widths of its columns
_END_BYTES = 8  # of a Parquet file, behind its footer: the length of that, and "PAR1"
_ARROW_BYTES = 64 << 10  # that Arrow reads of the end of a file, at least
_TEXT_BYTES = 16  # of a value of any length, about
_MOST_TAIL = 2 << 20
_GROUP_ROWS = 100_000  # of a row group, where the spec says nothing else
_CHUNK_BYTES, _COLUMN_BYTES = 200, 600  # of a footer, about: texts and statistics are of any length


class FooterRead(NamedTuple):
    """The footer of a leaf file, and the path of the file."""

    path: str
    footer: pq.FileMetaData


def lies_elsewhere(storage: Storage) -> bool:
    """Whether files may lie in a store, of which many are asked at once; with a disk that wins nothing."""
    return not storage.is_local or bool(storage.mounts)


@dataclass(frozen=True, eq=False)
class LeafRead:
    """What is read of one file of a leaf of ours.

    Attributes
    ----------
    storage : Storage
        At the catalog's root.
    path : str
    schema : pyarrow.Schema
        Of the column group; columns that came after the file was written are null.
    columns : list of str
        What is given of it.
    predicate : Predicate or None
        On any columns of the group. Row groups that cannot meet it, by their statistics, are not fetched.
    inside : Intervals or None
        Only rows in these, and only row groups that have any; of several, `columns` name `_healpix_29`.
    wanted : callable or None
        Of the row groups inside, those that are read.
    numbers : int64[n] or None
        Only these rows of the file, ascending; then there is neither a predicate nor `inside`.
    size : int or None
        Of the file, in bytes, where it is known.
    rows : int or None
        Of the file, where it is known.
    """

    storage: Storage
    path: str
    schema: pa.Schema
    columns: list[str]
    predicate: Predicate | None = None
    inside: Intervals | None = None
    wanted: Wanted | None = None
    numbers: NDArray[np.int64] | None = None
    size: int | None = None
    rows: int | None = None

    def end(self, at_once: int = _MOSTLY_READ_BYTES) -> AskedRange | None:
        """The range of a file in a store by which it is opened; None if its size is not known.

        It is a byte longer than the file should be, as a longer one is another.

        Parameters
        ----------
        at_once : int
            Bytes of a file up to which that is all of it, if most of it is read; 1 MiB at most.
        """
        if self.size is None or not self._is_in_store():
            return None
        start = self._tail_start(self.size, min(at_once, _MOSTLY_READ_BYTES))
        return AskedRange(self.storage, self.path, start, self.size + 1)

    def asks_more(self, end: AskedRange, came: Future[Any]) -> bool:
        """Whether `open` will ask for more than came for `end`: of a longer footer, or another file."""
        if came.exception() is not None:
            return True
        data = memoryview(came.result())
        start = 0 if len(data) == self.size else end.start
        footer = int.from_bytes(data[-_END_BYTES:-4], "little") + _END_BYTES
        return start + len(data) != self.size or max(footer, min(self.size, _ARROW_BYTES)) > len(data)

    def open(self, end: AskedRange | None = None, came: Future[Any] | None = None) -> OpenLeaf:
        """Read the footer and choose row groups; of a file in a store, by one request if its size is known.

        Parameters
        ----------
        end : AskedRange, optional
            What `end` gives, if a pool was asked for it.
        came : Future, optional
            What the pool gave.

        Raises
        ------
        VerificationError
            The file is missing or damaged, or has fewer rows.
        """
        with read_errors(self.storage, self.path):
            held = None
            if self._is_in_store():
                held = self._with_end(end, came)
                fragment = _FORMAT.make_fragment(held.arrow())
            else:
                path = self.storage.arrow_path(self.path)
                fragment = _FORMAT.make_fragment(path, self.storage.arrow_filesystem())
            return OpenLeaf.of(self, fragment, held)

    def table(self) -> pa.Table:
        """The rows, in the order of the file.

        Raises
        ------
        VerificationError
            As of `open`.
        """
        leaf = self.open()
        pieces = [] if leaf.held is None else leaf.missing(MOST_REQUESTS)
        with RequestPool() as pool:
            for piece, came in zip(pieces, pool.ranges([piece.asked for piece in pieces]), strict=True):
                piece.hold(came)
        return leaf.table()

    def footers(self) -> list[FooterRead]:
        """The footer of the file, alone in a list; errors as of `open`."""
        return self.open().footers()

    def _is_in_store(self) -> bool:
        return lies_elsewhere(self.storage) and "://" in self.storage.uri(self.path)

    def _with_end(self, end: AskedRange | None, came: Future[Any] | None) -> HeldFile:
        """The file, of which the end is held; parameters as of `open`."""
        storage, path = self.storage, self.path
        if self.size is not None and (end := end or self.end()) is not None:
            held = HeldFile(storage, path, self.size)
            try:
                data = storage.range_buffer(path, end.start, end.stop) if came is None else came.result()
                if held.hold_end(end.start, data):
                    return held
            except (StoreTimeoutError, NotReadableError):
                raise
            except StorageError:  # a store also says so of a range that an object does not have
                log.debug("The end of %s is not where it was.", storage.uri(path))
        size = storage.entry(path).size  # nobody told it, or the file is another one by now
        held = HeldFile(storage, path, size)
        if size:
            start = self._tail_start(size, _MOSTLY_READ_BYTES)
            held.hold_end(start, storage.range_buffer(path, start, size + 1))
        return held

    def _tail_start(self, size: int, at_once: int) -> int:
        if size <= _WHOLE_BYTES or (size <= at_once and self._reads_most()):
            return 0
        return max(0, size - self._tail_bytes())

    def _reads_most(self) -> bool:
        """Whether most of the file is read, as far as that is known before its footer is."""
        passed_over = self.predicate is not None or self.wanted is not None  # row groups, it may be
        if passed_over or self.rows is None or self.rows > _GROUP_ROWS:
            return False
        widths = {field.name: _width_of(field.type) for field in self.schema}
        return sum(widths[name] for name in self.columns) >= _MOST_OF_IT * sum(widths.values())

    def _tail_bytes(self) -> int:
        """Bytes of the end of the file that hold its footer, as far as that can be guessed."""
        columns = sum(map(_leaves_of, self.schema.types))
        groups = 1 if self.rows is None else -(-self.rows // _GROUP_ROWS)
        return min(max(_TAIL_BYTES, columns * (_COLUMN_BYTES + groups * _CHUNK_BYTES)), _MOST_TAIL)


@dataclass(frozen=True, eq=False)
class OpenLeaf:
    """A leaf file whose footer is read, so that it is known what is to be fetched of it.

    Attributes
    ----------
    read : LeafRead
    fragment : pyarrow.dataset.ParquetFileFragment
        Of the chosen row groups.
    needed : list of str
        The columns that are read: those that are given, and those that decide.
    condition : pyarrow.dataset.Expression or None
        By which Arrow passes over rows.
    skipped : int64[n] or None
        Of rows by number: of each, how many rows before it are in row groups that are not read.
    held : HeldFile or None
        What was fetched; None of a file of this machine.
    """

    read: LeafRead
    fragment: ds.ParquetFileFragment
    needed: list[str]
    condition: ds.Expression | None
    skipped: NDArray[np.int64] | None
    held: HeldFile | None

    @classmethod
    def of(cls, read: LeafRead, fragment: ds.ParquetFileFragment, held: HeldFile | None) -> OpenLeaf:
        """Choose the row groups of a file; errors of Arrow where its footer is damaged."""
        if read.numbers is not None:
            return cls(read, *_with_rows(read, fragment, read.numbers), held)
        predicate, inside = read.predicate, read.inside
        needed = read.columns
        if predicate is not None:
            needed = [*needed, *sorted(predicate.columns.difference(needed))]
        stored = fragment.physical_schema
        condition = _span(inside)
        skipping = None if predicate is None else pushed_down(predicate, read.schema, stored)
        if skipping is not None:
            condition = skipping if condition is None else condition & skipping
        if inside is not None:
            fragment = fragment.subset(row_group_ids=row_groups_in(fragment.metadata, inside, read.wanted))
        if condition is not None:
            asked = predicate.columns if predicate is not None and skipping is not None else ()
            check_chunks(fragment, {HEALPIX_COLUMN, *asked})
            if held is not None:  # so that only what may pass is fetched
                whole = set(read.schema.names) <= set(stored.names)
                fragment = fragment.subset(filter=condition, schema=stored if whole else read.schema)
        return cls(read, fragment, needed, condition, None, held)

    def footers(self) -> list[FooterRead]:
        """The footer of the file, alone in a list."""
        return [FooterRead(self.read.path, self.fragment.metadata)]

    @property
    def bytes_held(self) -> int:
        """Bytes of the file that came when it was opened."""
        return 0 if self.held is None else self.held.bytes_held

    def missing(self, most: int) -> list[RangeToFetch]:
        """What is to be fetched for `table`; `most` as for `HeldFile.missing`.

        Raises
        ------
        VerificationError
            The footer is damaged.
        """
        if self.held is None:
            return []
        with read_errors(self.read.storage, self.read.path):
            groups = [group.id for group in self.fragment.row_groups]
            ranges = chunk_ranges(self.fragment.metadata, groups, self.needed)
        return pieces_of(self.read.storage, self.read.path, self.held, ranges, most)

    def table(self) -> pa.Table:
        """The rows, in the order of the file.

        Raises
        ------
        VerificationError
            The file is damaged, or is missing by now.
        """
        read = self.read
        with read_errors(read.storage, read.path):
            in_threads = self.fragment.metadata.num_rows >= FEW_ROWS
            table = self._scanned(in_threads)
        if read.numbers is not None and self.skipped is not None:
            return in_order(table, read.numbers - self.skipped)
        if read.predicate is not None:
            table = passing(read.predicate, _of_types(table, read.schema)).select(read.columns)
        if read.inside is not None and len(read.inside.start) > 1:
            table = table.filter(pa.array(read.inside.hold(table[HEALPIX_COLUMN].to_numpy())))
        return table

    def _scanned(self, in_threads: bool) -> pa.Table:
        read, fragment = self.read, self.fragment
        if set(read.schema.names) <= set(fragment.physical_schema.names):
            return fragment.to_table(columns=self.needed, filter=self.condition, use_threads=in_threads)
        # Written before the catalog had all its columns.
        scanner = ds.Scanner.from_fragment(
            fragment,
            schema=read.schema,
            columns=self.needed,
            filter=self.condition,
            use_threads=in_threads,
        )
        return scanner.to_table()


def row_groups_in(footer: pq.FileMetaData, inside: Intervals, wanted: Wanted | None = None) -> list[int]:
    """The row groups that may hold rows of some intervals; of these, those that are wanted."""
    chunks = ColumnChunks(footer)
    ranges = [range_of(chunks, number) for number in range(footer.num_row_groups)]
    found = [number for number, (start, stop) in enumerate(ranges) if len(inside.within(start, stop))]
    if wanted is None or not found:
        return found
    chosen = wanted(*np.array([ranges[number] for number in found], np.int64).T)
    return [number for number, is_wanted in zip(found, chosen.tolist(), strict=True) if is_wanted]


def check_length(storage: Storage, path: str, numbers: NDArray[np.int64], rows: int) -> None:
    """Raise `VerificationError` where a file has fewer rows than are asked for."""
    if len(numbers) and numbers[-1] >= rows:
        raise VerificationError(
            f"{storage.uri(path)} has {rows} rows, fewer than metadata.json says; restore it or ingest "
            "again: Catalog.verify() tells more"
        )


def _with_rows(
    read: LeafRead, fragment: ds.ParquetFileFragment, numbers: NDArray[np.int64]
) -> tuple[ds.ParquetFileFragment, list[str], None, NDArray[np.int64]]:
    """The row groups that hold some rows, as `OpenLeaf` has them."""
    footer = fragment.metadata
    check_length(read.storage, read.path, numbers, footer.num_rows)
    lengths = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    ends = np.cumsum(lengths, dtype=np.int64)
    of_group = np.searchsorted(ends, numbers, side="right")
    chosen = np.unique(of_group)
    taken = np.cumsum(np.array(lengths, np.int64)[chosen])  # rows, up to the end of each that is read
    skipped = (ends[chosen] - taken)[np.searchsorted(chosen, of_group)]
    return fragment.subset(row_group_ids=chosen.tolist()), read.columns, None, skipped


def _leaves_of(kind: pa.DataType) -> int:
    """How many leaf columns Parquet has of a type."""
    return sum(_leaves_of(kind.field(at).type) for at in range(kind.num_fields)) or 1


def _width_of(kind: pa.DataType) -> int:
    """Bytes of a value of a type, about."""
    if kind.num_fields:
        return sum(_width_of(kind.field(at).type) for at in range(kind.num_fields))
    try:
        return max(kind.bit_width // 8, 1)
    except ValueError:
        return _TEXT_BYTES


def _span(inside: Intervals | None) -> ds.Expression | None:
    """A condition that rows in some intervals meet."""
    if inside is None:
        return None
    if not len(inside.start):
        return pc.scalar(False)
    h29 = pc.field(HEALPIX_COLUMN)
    return (h29 >= int(inside.start[0])) & (h29 < int(inside.stop[-1]))


def _of_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with the types that a schema has for its columns; files may hold others for the same values."""
    wanted = pa.schema([schema.field(name) for name in table.column_names])
    return table if table.schema.equals(wanted) else table.cast(wanted)
