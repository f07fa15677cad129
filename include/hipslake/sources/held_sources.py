"""Source files in a store whose parts are held from step to step, where one process does all steps of a run.

What was fetched of a file is not fetched again. That the file is still the one that was listed is looked for
as before: a file that was replaced is refused, whatever is held of it. A look that was begun before the file
is read counts for what is held by then; `hipslake.sources.looks_at_files` has those that go with requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial

from hipslake.sources.file_listing import check_unchanged
from hipslake.sources.looks_at_files import ListedFile, Looks, listed_as, looks_at
from hipslake.sources.source_file import SourceFile
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile
from hipslake.storage.store_threads import begin

MOST_HELD = 64 << 20
"""Bytes of the files together that are held."""

_MOST_CHECKS = 16  # files that are looked at before they are read
_END_BYTES = 64 << 10  # of a file, fetched first: most footers are smaller


class _Held:
    """Files that are held, by what they were listed as."""

    def __init__(self) -> None:
        self.files: dict[ListedFile, HeldFile] = {}
        self.bytes = 0
        self.checks: dict[ListedFile, Future[None]] = {}
        self.lock = threading.Lock()

    def of(self, storage: Storage, name: str, file: SourceFile) -> HeldFile:
        key = listed_as(file)
        with self.lock:
            known = self.files.get(key)
            if known is None and self.bytes + file.size <= MOST_HELD:
                known = self.files[key] = HeldFile(storage, name, file.size)
                self.bytes += file.size
        if known is None:
            return _file(storage, name, file)
        opened = known.again(_before_request(file))
        for each in opened.missing([(max(0, file.size - _END_BYTES), file.size)], 1):
            opened.fetch(*each)
        return opened


_holding: list[_Held] = []


@contextmanager
def holding_sources() -> Iterator[None]:
    """Hold what is fetched of source files during a block, in all threads of the process."""
    held = _Held()
    _holding.append(held)
    try:
        yield
    finally:
        _holding.remove(held)


def begin_checks(files: Sequence[SourceFile]) -> None:
    """Begin to look whether files that are held are still those that were listed, as they are to be read now.

    Parameters
    ----------
    files : sequence of SourceFile
        As they were listed; of very many, the first ones.
    """
    for held in _holding[-1:]:
        for file in files[:_MOST_CHECKS]:
            key = listed_as(file)
            if key in held.files and key not in held.checks:
                held.checks[key] = begin(partial(check_unchanged, file))


def checking(file: SourceFile) -> Looks:
    """Looks whether a file is still the one that was listed while it is read.

    The first of them is made anew, or is once that which `begin_checks` began.
    """
    begun = None
    for held in _holding[-1:]:
        with held.lock:
            begun = held.checks.pop(listed_as(file), None)
    return Looks(file, begun)


def held_source(storage: Storage, name: str, file: SourceFile) -> HeldFile:
    """Open a source file in a store, with what is held of it.

    Parameters
    ----------
    storage : Storage
    name : str
        Where it lies there.
    file : SourceFile
        As it was listed.
    """
    try:
        held = _holding[-1]
    except IndexError:
        return _file(storage, name, file)
    return held.of(storage, name, file)


def _file(storage: Storage, name: str, file: SourceFile) -> HeldFile:
    return HeldFile(storage, name, file.size, _before_request(file))


def _before_request(file: SourceFile) -> Callable[[], object] | None:
    reader = looks_at(file)
    if reader is None:
        return None
    reader.told()
    return reader.before_request
