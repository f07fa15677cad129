"""Data files that the threads of one process write as their rows come, without an exchange.

Rows of a source are put to those that wait for their file, source after source, so that files have the rows
that an exchange would give them, in the same order. Once all rows of a file are there, or too many wait in
memory, they are written, as row groups. Threads read, route and write, each as it comes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from contextvars import copy_context
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from hipslake.engine.model import Counter, Engine
from hipslake.steps.sink.tasks import WriteRowsTask
from hipslake.storage.atomic import synced_behind
from hipslake.tables.new_files import NewFile
from hipslake.tables.writing_protocol import OpenDataFile, RowWriter

HELD_BYTES = 1 << 30
"""Bytes of rows that wait in memory, about."""

_LEAST_GROUP = 4 << 20  # bytes of row groups, on average, that are worth it
_AHEAD_BYTES = 256 << 20  # of rows that are read before it is the turn of their source
_SPARED = 4  # rows stay in memory that take so much less than an equal share of it
_LOOKED_EVERY = 0.5  # seconds: whether the work is still wanted
_MOST_THREADS = 8  # of one process: more would wait for each other

MOST_FILES = HELD_BYTES // _LEAST_GROUP
"""That may be open at once."""

Part = tuple[int, pa.RecordBatch]
"""Rows, and what they belong to: the number of a partition value or of a file."""


def takes_streams(writer: RowWriter, engine: Engine) -> bool:
    """Whether threads of this process may write files of a writer as their rows come."""
    return writer.takes_rows_as_they_come and engine.on_this_machine and engine.cores <= _MOST_THREADS


def may_stream(task: WriteRowsTask, engine: Engine) -> bool:
    """Whether the files of a task may be written as their rows come."""
    if not (task.plan.shuffled and task.clustering is None and takes_streams(task.writer, engine)):
        return False
    return int((task.plan.counts.totals > 0).sum()) <= MOST_FILES  # as many are open at once


class FilePlacing(Protocol):
    """Says which rows of sources go to which files."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""

    @property
    def writer(self) -> RowWriter:
        """Of the files."""

    @property
    def written(self) -> Counter:
        """Rows written so far."""

    @property
    def sources(self) -> int:
        """How many sources there are."""

    def routed(self, number: int) -> Iterator[tuple[pa.RecordBatch, list[Part]]]:
        """The batches of a source, and their rows in parts; by several threads at once."""

    def placed(self, parts: Sequence[Part]) -> Iterator[Part]:
        """The rows of each file, from the parts of a batch; of one batch after another, in order."""

    def planned(self, file: int) -> int:
        """Rows of a file, or the most of it."""

    def named(self, file: int) -> tuple[tuple[Any, ...], str]:
        """The partition and the name of a file."""


class PlannedFiles:
    """The files of a task that is shuffled: of each is known which rows it has."""

    def __init__(self, task: WriteRowsTask) -> None:
        self._task = task
        self._rows = task.plan.file_rows
        self.schema = task.new.schema
        self.writer = task.writer
        self.written = task.written
        self.named = task.named

    @property
    def sources(self) -> int:
        return len(self._task.old) + self._task.new.rows.tasks

    def routed(self, number: int) -> Iterator[tuple[pa.RecordBatch, list[Part]]]:
        for batch, runs in self._task.filed(number):
            yield batch, [*runs.parts(batch)]

    def placed(self, parts: Sequence[Part]) -> Iterator[Part]:
        return iter(parts)

    def planned(self, file: int) -> int:
        return int(self._rows[file])


class _Group(NamedTuple):
    """Rows that are to be written to a file."""

    rows: pa.Table
    bytes: int
    is_last: bool


class _File:
    """A file, and rows that wait for it."""

    def __init__(self, number: int, planned: int) -> None:
        self.number = number
        self.missing = planned  # rows that have not come yet
        self.parts: list[pa.RecordBatch] = []
        self.bytes = 0  # of the parts, about
        self.groups: deque[_Group] = deque()
        self.is_taken = False  # by a thread, or waits for one
        self.closing = ExitStack()
        self.opened: OpenDataFile | None = None


class _StoppedError(Exception):
    """Another thread has failed."""


class StreamedFiles:
    """The files that are open, and which source is filed.

    Parameters
    ----------
    placing : FilePlacing
    check_running : callable
        Raises if the work is not wanted any more; asked twice a second.
    held_bytes : int, optional
        Bytes of rows that may wait.
    """

    def __init__(
        self,
        placing: FilePlacing,
        check_running: Callable[[], None],
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self._placing = placing
        self._check_running = check_running
        self._sources = sources = placing.sources
        self._held_bytes = held_bytes
        self._files: dict[int, _File] = {}
        self._numbers = iter(range(sources))
        self._turn = 0  # the source whose rows are filed now
        self._ahead: dict[int, list[tuple[list[Part], int]]] = {}  # read, by source, with their bytes
        self._ahead_bytes = 0
        self._ended: set[int] = set()  # sources that are read, and are not filed
        self._held = 0  # bytes of rows that have been put to files since all were last written
        self._queued = 0  # bytes of groups that are not written yet
        self._written: list[NewFile] = []
        self._waiting: deque[_File] = deque()  # files with groups that no thread writes
        self._idle = 0  # threads that wait, and would write a file
        self._failed = False
        self._look_again = 0.0  # the time of it
        self._changed = threading.Condition()

    def write(self, threads: int) -> list[NewFile]:
        """Write all files, sorted by path.

        Raises
        ------
        VerificationError
            There are more rows than were counted.
        HipslakeError
            What reading a source or writing a file raised; none of the files that were open then is there.
        """
        with synced_behind(), closing(self):
            with ThreadPoolExecutor(threads, thread_name_prefix="sink") as pool:
                running = [pool.submit(copy_context().run, self._work) for _ in range(threads)]
                try:
                    wait(running, return_when=FIRST_EXCEPTION)
                except BaseException:  # a signal
                    self._stop()
                    raise
            errors = [error for each in running if (error := each.exception()) is not None]
            for error in errors:
                if not isinstance(error, _StoppedError):
                    raise error
        return sorted(self._written, key=lambda file: file.path)

    @property
    def complete(self) -> list[str]:
        """Paths of files that have been written to their ends."""
        return [file.path for file in self._written]

    def _work(self) -> None:
        try:
            while (number := self._next_source()) is not None:
                self._stream(number)
            self._write_until(lambda: self._turn == self._sources and not self._waiting)
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    def _next_source(self) -> int | None:
        with self._changed:
            return next(self._numbers, None)

    def _stream(self, number: int) -> None:
        for batch, parts in self._placing.routed(number):
            self._look_whether_running()
            with self._changed:
                self._ahead.setdefault(number, []).append((parts, batch.nbytes))
                self._ahead_bytes += batch.nbytes
                if self._turn == number:
                    self._file_ahead(number)
            del batch, parts  # not held while others are written
            self._write_until(lambda: self._has_room(number))
        with self._changed:
            self._ended.add(number)
            while self._turn in self._ended:
                self._ended.remove(self._turn)
                self._turn += 1
                self._file_ahead(self._turn)
            if self._turn == self._sources:
                self._end_files(self._files.values())
            self._changed.notify_all()

    def _look_whether_running(self) -> None:
        now = time.monotonic()
        if now >= self._look_again:
            self._look_again = now + _LOOKED_EVERY
            self._check_running()

    def _has_room(self, number: int) -> bool:
        """Whether more rows of a source may be read."""
        if self._turn == number:
            return self._queued <= self._held_bytes
        return self._ahead_bytes <= min(_AHEAD_BYTES, self._held_bytes - self._queued)

    def _write_until(self, is_enough: Callable[[], bool]) -> None:
        """Write what waits for that, but for what idle threads take, or wait, until it is enough."""
        while True:
            with self._changed:
                self._idle += 1
                while not (self._failed or self._waiting or is_enough()):
                    self._changed.wait()
                self._idle -= 1
                if self._failed:
                    raise _StoppedError
                if is_enough() and len(self._waiting) <= self._idle:
                    return
                file = self._waiting.popleft()
            self._write_groups(file)

    def _file_ahead(self, number: int) -> None:
        """File what has been read of the source whose turn it is."""
        for parts, size in self._ahead.pop(number, []):
            self._ahead_bytes -= size
            self._file(parts, size)
        self._changed.notify_all()

    def _file(self, parts: Sequence[Part], size: int) -> None:
        """Put rows to those that wait for their files."""
        row_bytes = size / max(sum(rows.num_rows for _, rows in parts), 1)
        for number, rows in self._placing.placed(parts):
            file = self._files.get(number)
            if file is None:
                file = self._files[number] = _File(number, self._placing.planned(number))
            file.parts.append(rows)
            file.bytes += int(rows.num_rows * row_bytes)
            file.missing -= rows.num_rows
            if not file.missing:
                self._queue(file)
        self._held += size
        if self._held > self._held_bytes:
            self._free()

    def _free(self) -> None:
        """Have all rows written that wait, but for the few of small files, which are copied.

        All, since rows of one batch share its memory.
        """
        files = [file for file in self._files.values() if file.parts]
        least = self._held_bytes // (_SPARED * max(len(files), 1))
        self._held = 0
        for file in files:
            if file.bytes < least:
                rows = pa.Table.from_batches(file.parts)
                file.parts = rows.take(pa.array(np.arange(rows.num_rows))).combine_chunks().to_batches()
                self._held += file.bytes
            else:
                self._queue(file)

    def _end_files(self, files: Iterable[_File]) -> None:
        """Have files written to their ends that have fewer rows than planned; that is told later."""
        for file in files:
            if file.missing:
                file.missing = 0
                self._queue(file)

    def _queue(self, file: _File) -> None:
        rows = pa.Table.from_batches(file.parts, self._placing.schema)
        file.groups.append(_Group(rows, file.bytes, is_last=not file.missing))
        self._queued += file.bytes
        file.parts, file.bytes = [], 0
        if not file.is_taken:
            file.is_taken = True
            self._waiting.append(file)

    def _write_groups(self, file: _File) -> None:
        while True:
            with self._changed:
                if not file.groups:
                    file.is_taken = False
                    return
                group = file.groups.popleft()
            if file.opened is None:
                partition, name = self._placing.named(file.number)
                file.opened = file.closing.enter_context(self._placing.writer.opened(partition, name))
            if group.rows.num_rows:  # a row group without rows has no statistics
                file.opened.write(group.rows)
            self._placing.written.add(group.rows.num_rows)
            with self._changed:
                self._queued -= group.bytes
                self._changed.notify_all()
            if group.is_last:
                file.closing.close()
                with self._changed:
                    self._written.append(file.opened.new_file())

    def close(self) -> None:
        """Give up the files that are open."""
        for file in self._files.values():
            with suppress(_StoppedError):
                file.closing.__exit__(_StoppedError, _StoppedError(), None)
