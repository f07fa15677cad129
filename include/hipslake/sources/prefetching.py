"""Rows of local files that a thread reads before they are asked for, in the process that will ask for them.

A program that has to import libraries first, and to look up where rows go, keeps one core busy meanwhile; the
others can decode. Nothing depends on what is read early: whoever comes to ask for other files, columns or
types, or for a split that the thread has not come to, reads as he would without.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context

import pyarrow as pa

from hipslake.errors import HipslakeError
from hipslake.sources.file_listing import rooted
from hipslake.sources.formats import open_source
from hipslake.sources.source_file import Split
from hipslake.sources.source_reader import Source, selected
from hipslake.specs.environment import expand
from hipslake.specs.source_spec import SourceSpec

MOST_BYTES = 256 << 20
"""Of rows that wait to be asked for; one batch more may be in memory."""

_MOST_FILES = 64  # whose headers are read
_prefetching: list[_Prefetch] = []


@contextmanager
def prefetching(
    spec: SourceSpec,
    columns: Sequence[str] | None = None,
    *,
    split_bytes: int,
    most_bytes: int | None = None,
) -> Iterator[None]:
    """Let a thread read the files of a source during the block, split after split.

    What is wrong with the files is told by who lists them, and by who asks for their rows.

    Parameters
    ----------
    spec : SourceSpec
    columns : sequence of str, optional
        Those that are read; None: all.
    split_bytes : int
        Of a split, as for `Source.splits`.
    most_bytes : int, optional
        If the files have more, nothing is read.
    """
    prefetch = _Prefetch(spec, columns, split_bytes, most_bytes)
    _prefetching.append(prefetch)
    prefetch.begin()
    try:
        yield
    finally:
        _prefetching.remove(prefetch)
        prefetch.end()


def prefetched(split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[pa.RecordBatch] | None:
    """Take the rows of a split that were, or are being, read: the batches that `Source.read` would give.

    Returns
    -------
    iterator of pyarrow.RecordBatch or None
        None where they were not read, or with other columns, or are taken already.

    Raises
    ------
    HipslakeError
        By the iterator, as of `Source.read`.
    """
    for prefetch in _prefetching[-1:]:
        return prefetch.take(split, selected(schema, columns))
    return None


def first_prefetched(split: Split, schema: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch | None:
    """Return the first rows of a split that was, or is being, read; they stay to be taken.

    Returns
    -------
    pyarrow.RecordBatch or None
        None where `prefetched` gives none, and where there are no rows, or they cannot be read.
    """
    for prefetch in _prefetching[-1:]:
        return prefetch.first(split, selected(schema, columns))
    return None


class _SplitRows:
    """What was read of a split, and is not taken yet."""

    def __init__(self) -> None:
        self.batches: deque[pa.RecordBatch] = deque()
        self.is_taken = False
        self.is_complete = False
        self.error: BaseException | None = None


class _Prefetch:
    """A thread that reads, and what it has read; see `prefetching`."""

    def __init__(
        self,
        spec: SourceSpec,
        columns: Sequence[str] | None,
        split_bytes: int,
        most_bytes: int | None,
    ) -> None:
        self._spec = spec
        self._columns = columns
        self._split_bytes = split_bytes
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self._wanted: pa.Schema | None = None
        self._splits: dict[Split, _SplitRows] = {}
        self._left_out: set[Split] = set()  # were asked for before the thread came to them
        self._held = 0  # bytes
        self._ended = False
        run = copy_context().run  # with the credentials of the caller
        self._thread = threading.Thread(target=run, args=(self._read,), name="prefetch", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._splits.clear()
            self._changed.notify_all()
        self._thread.join()

    def take(self, split: Split, wanted: pa.Schema) -> Iterator[pa.RecordBatch] | None:
        with self._changed:
            found = self._found(split, wanted)
            if found is None:
                self._left_out.add(split)
                return None
            found.is_taken = True
            del self._splits[split]
        return self._batches(found)

    def first(self, split: Split, wanted: pa.Schema) -> pa.RecordBatch | None:
        with self._changed:
            found = self._found(split, wanted)
            if found is None:
                return None
            self._changed.wait_for(lambda: found.batches or found.is_complete)
            return found.batches[0] if found.batches else None

    def _found(self, split: Split, wanted: pa.Schema) -> _SplitRows | None:
        """A split that the thread has come to, and nobody has taken, if it reads what is wanted."""
        return self._splits.get(split) if self._wanted is not None and self._wanted.equals(wanted) else None

    def _batches(self, found: _SplitRows) -> Iterator[pa.RecordBatch]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: found.batches or found.is_complete)
                if not found.batches:
                    if found.error is not None:
                        raise found.error
                    return
                batch = found.batches.popleft()
                self._held -= batch.nbytes
                self._changed.notify_all()
            yield batch
            del batch  # not held while the next one is awaited

    def _read(self) -> None:
        with suppress(HipslakeError, OSError):
            source = open_source(self._spec)
            folder, _ = rooted(expand(self._spec.uri))
            if not (folder.is_local and source.tells_types):  # else only all of the data tell them
                return
            files = source.list_files()
            if len(files) > _MOST_FILES:
                return
            if self._most_bytes is not None and sum(file.size for file in files) > self._most_bytes:
                return
            splits = source.splits(files, self._split_bytes)
            schema = source.schema(files)
            assert schema is not None, "headers tell it"
            with suppress(KeyError):  # a column that is not there
                self._wanted = selected(schema, self._columns)
                for split in splits:
                    if not self._ended:
                        self._read_split(source, split, schema)

    def _read_split(self, source: Source, split: Split, schema: pa.Schema) -> None:
        found = _SplitRows()
        with self._changed:
            self._changed.wait_for(lambda: self._held < MOST_BYTES or self._ended)
            if split in self._left_out or self._ended:
                return
            self._splits[split] = found
        try:
            for batch in source.read(split, schema, self._columns):
                if not self._put(found, batch):
                    return
        except BaseException as error:  # who asks for the rows is told
            found.error = error
        finally:
            with self._changed:
                found.is_complete = True
                self._changed.notify_all()

    def _put(self, found: _SplitRows, batch: pa.RecordBatch) -> bool:
        """Have a batch wait to be taken, and return whether more are wanted; waits until there is room."""
        with self._changed:
            found.batches.append(batch)
            self._held += batch.nbytes
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._held < MOST_BYTES or (found.is_taken and not found.batches) or self._ended
            )
            return not self._ended
