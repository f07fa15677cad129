"""Whether a source file in a store is still the one that was listed, looked for while it is read.

What was fetched before a look that finds the listed file is of that file. So no request for a part of it is
later than the last look, which may go beside it: what came after that might be of another file, and rows of
two files would be mixed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from hipslake.sources.file_listing import check_unchanged
from hipslake.sources.source_file import SourceFile
from hipslake.storage.store_threads import begin

ListedFile = tuple[str, int, str]
"""What a file was listed as: its URI, size and stamp."""

Given = TypeVar("Given")


def listed_as(file: SourceFile) -> ListedFile:
    """What a file was listed as."""
    return file.uri, file.size, file.stamp


class Looks:
    """The looks at a file that one reader makes, the last of which goes with its last request, or follows it.

    Parameters
    ----------
    file : SourceFile
    begun : Future, optional
        A look that was begun before, and counts for what was fetched before that.
    """

    def __init__(self, file: SourceFile, begun: Future[None] | None = None) -> None:
        self._file = file
        self._look = begun
        self._is_told = self._has_asked = False
        self._lock = threading.Lock()

    def during(self, given: Iterator[Given]) -> Given | None:
        """The next of what is given, None at its end; what is opened meanwhile is of this reader."""
        token = _READER.set(self)
        try:
            return next(given, None)
        finally:
            _READER.reset(token)

    def before_request(self) -> None:
        """Tell that a part of the file is about to be fetched: a look is to follow."""
        with self._lock:
            self._is_told = self._has_asked = True

    def beside(self) -> None:
        """Begin a look, if none goes with the last request."""
        with self._lock:
            if self._has_asked or self._look is None:
                self._begin()

    def wait(self) -> None:
        """Wait for the last look, or for one that is begun now if none goes with the last request.

        Raises
        ------
        InputError
            The file is gone, or is no longer the one that was listed.
        StorageError
        """
        self.beside()
        look = self._look
        assert look is not None
        look.result()

    def end(self) -> None:
        """As `wait`, when all is read; look anew at a file whose requests nobody tells of."""
        with self._lock:
            if not self._is_told:
                self._has_asked = True
        self.wait()

    def told(self) -> None:
        """Note that all requests for the file are told of."""
        with self._lock:
            self._is_told = True

    def is_of(self, file: SourceFile) -> bool:
        """Whether they are looks at a file."""
        return listed_as(file) == listed_as(self._file)

    def _begin(self) -> None:
        self._look, self._has_asked = begin(partial(check_unchanged, self._file)), False


_READER: ContextVar[Looks | None] = ContextVar("reader", default=None)


def looks_at(file: SourceFile) -> Looks | None:
    """The looks of who reads a file now; None if nobody does here."""
    reader = _READER.get()
    return reader if reader is not None and reader.is_of(file) else None


def look_beside(file: SourceFile) -> None:
    """Begin a look beside requests that are under way, if the file is being read and none goes with them."""
    if (reader := looks_at(file)) is not None:
        reader.beside()
