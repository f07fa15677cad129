"""Reads of many leaf files in stores: their footers side by side, then the chosen bytes of all of them.

So a read of few leaves waits for a store two times, however many files these have. Of many leaves a window is
fetched ahead: a number of files whose footers are asked for, and a number of bytes of columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from hipslake.catalog.fetched_ranges import RangeToFetch, pieces_of
from hipslake.catalog.foreign_rows import current_files, foreign_ranges, foreign_rows
from hipslake.catalog.leaf_form import form_of
from hipslake.catalog.leaf_opening import read_errors
from hipslake.catalog.leaf_reads import FooterRead, LeafRead, check_length, lies_elsewhere
from hipslake.engine.reordering import in_order
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile
from hipslake.storage.parquet_tail import parquet_tail
from hipslake.storage.request_loop import MOST_REQUESTS
from hipslake.storage.request_pool import AskedRange, RequestPool

WINDOW_BYTES = 128 << 20
"""Bytes of columns that are fetched ahead, but for what one part of a catalog takes."""

Work = TypeVar("Work")


class OpenRead(Protocol):
    """A read of a leaf of which it is known what is to be fetched."""

    def missing(self, most: int) -> list[RangeToFetch]:
        """What is to be fetched, in as few requests as that many where it can be."""

    @property
    def bytes_held(self) -> int:
        """Bytes of the leaf that came when it was opened."""

    def table(self) -> pa.Table:
        """The rows."""

    def footers(self) -> list[FooterRead]:
        """The footers of all files of the leaf."""


class Read(Protocol):
    """A read of a leaf."""

    def end(self, at_once: int = ...) -> AskedRange | None:
        """What is to be asked for `open`, as of `LeafRead.end`; None where that finds out by itself."""

    def asks_more(self, end: AskedRange, came: Future[Any]) -> bool:
        """Whether `open` will ask for more than came for `end`."""

    def open(self, end: AskedRange | None = None, came: Future[Any] | None = None) -> OpenRead:
        """Ask what has to be known before anything is fetched; parameters as for `LeafRead.open`."""

    def table(self) -> pa.Table:
        """The rows."""

    def footers(self) -> list[FooterRead]:
        """The footers of all files of the leaf."""


@dataclass(frozen=True, eq=False)
class ForeignRead:
    """What is read of a leaf of others; it is taken as a `LeafRead` of its path.

    Attributes
    ----------
    leaf : LeafRead
        With the schema that has the form of the files.
    """

    leaf: LeafRead

    def end(self, at_once: int = 0) -> None:
        """The leaf may be several files."""

    def asks_more(self, end: AskedRange, came: Future[Any]) -> bool:
        """Whether `open` asks; always."""
        return True

    def open(self, end: AskedRange | None = None, came: Future[Any] | None = None) -> OpenForeign:
        """Find the files of the leaf and read their footers, and no more; errors as of `foreign_rows`."""
        storage, leaf = self.leaf.storage, self.leaf
        form = form_of(leaf.schema)
        assert form is not None
        files = {}
        for file in current_files(storage, leaf.path, form) if "://" in storage.uri(leaf.path) else ():
            with read_errors(storage, file):
                files[file] = HeldFile(storage, file, parquet_tail(storage, file).size)
        return OpenForeign(leaf, files)

    def table(self) -> pa.Table:
        """The rows; errors as of `foreign_rows`."""
        return OpenForeign(self.leaf, {}).table()

    def footers(self) -> list[FooterRead]:
        """The footers of the files of the leaf; errors as of `foreign_rows`."""
        return OpenForeign(self.leaf, {}).footers()


@dataclass(frozen=True, eq=False)
class OpenForeign:
    """A leaf of others, and those of its files that lie in a store."""

    leaf: LeafRead
    files: dict[str, HeldFile]

    @property
    def bytes_held(self) -> int:
        """Bytes of the leaf that came when it was opened."""
        return sum(held.bytes_held for held in self.files.values())

    def missing(self, most: int) -> list[RangeToFetch]:
        """What is to be fetched, of a read with a predicate what decides; errors as of `foreign_rows`."""
        leaf, storage, found = self.leaf, self.leaf.storage, []
        for path, held in self.files.items():
            with read_errors(storage, path):
                footer = parquet_tail(storage, path).footer
                ranges = foreign_ranges(footer, leaf.schema, leaf.columns, leaf.predicate, leaf.inside)
            found += pieces_of(storage, path, held, ranges, most)
        return found

    def footers(self) -> list[FooterRead]:
        """The footers of the files of the leaf; errors as of `foreign_rows`."""
        storage, leaf, found = self.leaf.storage, self.leaf, []
        form = form_of(leaf.schema)
        assert form is not None
        for path in current_files(storage, leaf.path, form):
            with read_errors(storage, path):
                found.append(FooterRead(path, parquet_tail(storage, path).footer))
        return found

    def table(self) -> pa.Table:
        """The rows; errors as of `foreign_rows`."""
        leaf = self.leaf
        rows = foreign_rows(
            leaf.storage, leaf.path, leaf.schema, leaf.columns, leaf.predicate, leaf.inside, self.files
        )
        if leaf.numbers is None:
            return rows
        check_length(leaf.storage, leaf.path, leaf.numbers, rows.num_rows)
        return in_order(rows, leaf.numbers)


def read_of(leaf: LeafRead) -> Read:
    """The read of a leaf of ours or of others, as its schema tells."""
    return leaf if form_of(leaf.schema) is None else ForeignRead(leaf)


class FetchedRead:
    """A read that is under way: stores were asked for its bytes, and `table` waits for them.

    Parameters
    ----------
    read : Read
    pool : RequestPool
        In whose threads it finds out what has to be asked for where one range does not tell.
    """

    def __init__(self, read: Read, pool: RequestPool) -> None:
        self._read, self._pool = read, pool
        # All that may be opened ahead hold no more than the window does.
        self.end = read.end(WINDOW_BYTES // MOST_REQUESTS)
        """What has to be asked for first; None if the read has to find that out."""
        self._came: Future[Any] | None = None
        self._opening: Future[Future[OpenRead] | None] = Future()  # None: `open` need not ask
        self._opened: OpenRead | None = None
        self._coming: list[tuple[RangeToFetch, Future[Any]]] = []
        self._error: Exception | None = None
        if self.end is None:
            self._opening.set_result(pool.submit(read.open))

    def begun(self, came: Future[Any]) -> None:
        """Note that `end` was asked for."""
        self._came = came
        came.add_done_callback(self._look)

    def _look(self, came: Future[Any]) -> None:
        """Let a thread open the read where that has to ask for more than came."""
        opening = None
        if self.end is not None and not came.cancelled() and self._read.asks_more(self.end, came):
            with suppress(RuntimeError):  # the pool has ended by an error: nobody will wait
                opening = self._pool.submit(self._read.open, self.end, came)
        self._opening.set_result(opening)

    @property
    def is_answered(self) -> bool:
        """Whether `plan` need not wait."""
        if not self._opening.done():
            return False
        opening = self._opening.result()
        return opening is None or opening.done()

    def plan(self, most: int) -> list[RangeToFetch]:
        """Wait until it is known what is to be fetched; that.

        An error is kept for `table`. `most` as for `HeldFile.missing`.
        """
        try:
            opening = self._opening.result()
            self._opened = self._read.open(self.end, self._came) if opening is None else opening.result()
            return self._opened.missing(most)
        except Exception as error:
            self._error = error
            return []
        finally:
            self._came = None
            self._opening = Future()  # nothing is held twice

    @property
    def bytes_held(self) -> int:
        """Bytes that came so far, where it is known what is to be fetched."""
        return 0 if self._opened is None else self._opened.bytes_held

    def fetch(self, coming: list[tuple[RangeToFetch, Future[Any]]]) -> None:
        """Note that what was planned is asked for."""
        self._coming = coming

    def table(self) -> pa.Table:
        """The rows; errors as of the read."""
        opened = self._known()
        while self._coming:
            piece, came = self._coming.pop(0)
            piece.hold(came)
        return opened.table()

    def footers(self) -> list[FooterRead]:
        """The footers of all files of the leaf; errors as of the read."""
        return self._known().footers()

    def _known(self) -> OpenRead:
        if self._error is not None:
            raise self._error
        assert self._opened is not None, "it was not planned"
        return self._opened


def fetched(works: Iterable[tuple[Work, Sequence[Read]]]) -> Iterator[tuple[Work, list[FetchedRead]]]:
    """Begin the reads of works, ahead of the caller who takes one work after the other.

    Up to 128 requests are under way at once, and begin together where the store's client can do that. Reads
    are opened that many ahead, and fetched 128 MiB ahead, but for one work that has more. What comes when a
    file is opened is at most as much again: all of it, where it has up to 1 MiB. A work of which all has come
    is given before an answer is awaited for another.

    Parameters
    ----------
    works : iterable of (object, sequence of Read)
        Each work with its reads.

    Yields
    ------
    (object, list of FetchedRead)
        Each work, and its reads in their order.
    """
    with RequestPool() as pool:
        window = _Window(iter(works), pool)
        while (work := window.next()) is not None:
            yield work


def fetched_each(storage: Storage, reads: Iterable[Read]) -> Iterator[Read | FetchedRead]:
    """Reads of leaves, one after the other; of a store they are begun ahead as by `fetched`."""
    if not lies_elsewhere(storage):
        yield from reads
        return
    for _, [read] in fetched((None, [each]) for each in reads):
        yield read


class _Window(Generic[Work]):
    """Works whose reads are under way: all are opened, and of those that come first the bytes are fetched."""

    def __init__(self, works: Iterator[tuple[Work, Sequence[Read]]], pool: RequestPool) -> None:
        self._works, self._pool = works, pool
        self._opening: deque[tuple[Work, list[FetchedRead]]] = deque()
        self._fetching: deque[_Fetching[Work]] = deque()
        self._opened = self._bytes = 0  # reads that are opened ahead, and bytes that are fetched ahead
        self._planned: _Fetching[Work] | None = None  # the first of `_opening`
        self._waiting: list[_Fetching[Work]] = []  # works that are to be fetched, and are not asked for yet
        self._open()
        # Of few files each is asked for as few ranges, so that all are under way at once. Of many, what is
        # fetched ahead hides the time that answers take.
        is_few = self._opened < MOST_REQUESTS
        self._most = MOST_REQUESTS // max(1, self._opened) if is_few else MOST_REQUESTS

    def next(self) -> tuple[Work, list[FetchedRead]] | None:
        """The next work; None after the last."""
        while self._opening:
            work, reads = self._opening[0]
            if self._planned is None:
                if not all(read.is_answered for read in reads):
                    self._fetch()
                    if self._fetching and self._fetching[0].is_here:
                        break  # its rows can be read meanwhile
                pieces = [read.plan(self._most) for read in reads]
                self._planned = _Fetching(work, reads, pieces)
            if self._fetching and self._bytes + self._planned.bytes > WINDOW_BYTES:
                break
            self._opening.popleft()
            self._fetching.append(self._planned)
            self._waiting.append(self._planned)
            self._opened, self._bytes = self._opened - len(reads), self._bytes + self._planned.bytes
            self._planned = None
            self._open()
        self._fetch()
        if not self._fetching:
            return None
        found = self._fetching.popleft()
        self._bytes -= found.bytes
        return found.work, found.reads

    def _open(self) -> None:
        """Open reads of further works, as many as may be under way at once."""
        begun: list[FetchedRead] = []
        while self._opened < MOST_REQUESTS and (found := next(self._works, None)) is not None:
            work, reads = found
            some = [FetchedRead(read, self._pool) for read in reads]
            self._opening.append((work, some))
            self._opened += len(some)
            begun += some
        ends = [(read, read.end) for read in begun if read.end is not None]
        for (read, _), came in zip(ends, self._pool.ranges([end for _, end in ends]), strict=True):
            read.begun(came)

    def _fetch(self) -> None:
        """Ask for all that is to be fetched, at once."""
        pieces = [piece for each in self._waiting for some in each.pieces for piece in some]
        came = iter(self._pool.ranges([piece.asked for piece in pieces]))
        for each in self._waiting:
            for read, some in zip(each.reads, each.pieces, strict=True):
                read.fetch([(piece, next(came)) for piece in some])
        self._waiting = []


class _Fetching(Generic[Work]):
    """A work of which it is known what is to be fetched."""

    def __init__(self, work: Work, reads: list[FetchedRead], pieces: list[list[RangeToFetch]]) -> None:
        self.work, self.reads, self.pieces = work, reads, pieces
        coming = sum(piece.stop - piece.start for some in pieces for piece in some)
        self.bytes = coming + sum(read.bytes_held for read in reads)
        self.is_here = not coming
