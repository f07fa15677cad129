"""Whether a source file in a store is still the one that was listed, looked for while it is read.

What was fetched before a look that finds the listed file is of that file. So no request for a part of it is
later than the last look, which may go beside it: what came after that might be of another file, and rows of
two files would be mixed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial

from hipslake.sources.file_listing import check_unchanged
from hipslake.sources.source_file import SourceFile
from hipslake.storage.store_threads import begin

ListedFile = tuple[str, int, str]
"""What a file was listed as: its URI, size and stamp."""

_LOCK = threading.Lock()
_readers: Counter[ListedFile] = Counter()
_looks: dict[ListedFile, Future[None]] = {}  # the last one at each file that is being read
_told_of: set[ListedFile] = set()  # of these, files whose requests are told of by `before_request`
_asked_since: set[ListedFile] = set()  # of these, files that were asked for since the last look was begun


def listed_as(file: SourceFile) -> ListedFile:
    """What a file was listed as."""
    return file.uri, file.size, file.stamp


class Looks:
    """The looks at a file while it is read."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file

    def wait(self) -> None:
        """Wait for the last look, or for one that is begun now if no look goes with the last request.

        Raises
        ------
        InputError
            The file is gone, or is no longer the one that was listed.
        StorageError
        """
        key = listed_as(self._file)
        with _LOCK:
            if key in _asked_since or key not in _looks:
                _look(self._file)
            look = _looks[key]
        look.result()

    def end(self) -> None:
        """As `wait`, when all is read; look anew at a file whose requests nobody tells of."""
        with _LOCK:
            if listed_as(self._file) not in _told_of:
                _look(self._file)
        self.wait()


@contextmanager
def looking(file: SourceFile, begun: Future[None] | None = None) -> Iterator[Looks]:
    """Look at a file while it is read, at the latest when `Looks.wait` is called.

    Parameters
    ----------
    file : SourceFile
    begun : Future, optional
        A look that was begun before, and counts for what was fetched before that.
    """
    key = listed_as(file)
    with _LOCK:
        _readers[key] += 1
        if begun is not None and key not in _looks:
            _looks[key] = begun
        elif _readers[key] > 1:  # what others have begun may be long ago
            _look(file)
    try:
        yield Looks(file)
    finally:
        with _LOCK:
            _readers[key] -= 1
            if not _readers[key]:
                del _readers[key]
                _looks.pop(key, None)
                _told_of.discard(key)
                _asked_since.discard(key)


def before_request(file: SourceFile) -> None:
    """Tell that a part of a file is about to be fetched: if it is being read, a look is to follow."""
    key = listed_as(file)
    with _LOCK:
        if key in _readers:
            _told_of.add(key)
            _asked_since.add(key)


def look_beside(file: SourceFile) -> None:
    """Begin a look beside requests that are under way, if the file is being read and none goes with them."""
    key = listed_as(file)
    with _LOCK:
        if key in _readers and (key in _asked_since or key not in _looks):
            _look(file)


def _look(file: SourceFile) -> None:
    key = listed_as(file)
    _looks[key] = begin(partial(check_unchanged, file))
    _asked_since.discard(key)
