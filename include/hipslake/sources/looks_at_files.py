"""Whether a source file in a store is still the one that was listed, looked for while it is read.

What was fetched before a look that finds the listed file is of that file. So each request for a part of it
goes beside a look, or before one: what came after the last look might be of another file, and rows of two
files would be mixed.
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
_looks: dict[ListedFile, Future[None]] = {}  # the last one of each file that is being read
_told_of: set[ListedFile] = set()  # of these, files whose requests are told of by `before_request`


def listed_as(file: SourceFile) -> ListedFile:
    """What a file was listed as."""
    return file.uri, file.size, file.stamp


class Looks:
    """The looks at a file while it is read."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file

    def wait(self) -> None:
        """Wait for the look that goes with the last request.

        Raises
        ------
        InputError
            The file is gone, or is no longer the one that was listed.
        StorageError
        """
        with _LOCK:
            look = _looks[listed_as(self._file)]
        look.result()

    def end(self) -> None:
        """As `wait`, when all is read; look anew at a file whose requests nobody tells of."""
        with _LOCK:
            told_of = listed_as(self._file) in _told_of
        if told_of:
            self.wait()
        else:
            check_unchanged(self._file)


@contextmanager
def looking(file: SourceFile, begun: Future[None] | None = None) -> Iterator[Looks]:
    """Look at a file while it is read.

    Parameters
    ----------
    file : SourceFile
    begun : Future, optional
        A look that was begun before, and counts for what was fetched before that; else one is begun.
    """
    key = listed_as(file)
    with _LOCK:
        _readers[key] += 1
        is_first = key not in _looks
        _looks[key] = begun if begun is not None and is_first else begin(partial(check_unchanged, file))
    try:
        yield Looks(file)
    finally:
        with _LOCK:
            _readers[key] -= 1
            if not _readers[key]:
                del _readers[key], _looks[key]
                _told_of.discard(key)


def before_request(file: SourceFile) -> None:
    """Tell that a part of a file is about to be fetched: if it is being read, a look goes beside that."""
    key = listed_as(file)
    with _LOCK:
        if key in _readers:
            _told_of.add(key)
            if _looks[key].done():
                _looks[key] = begin(partial(check_unchanged, file))
