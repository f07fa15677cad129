"""Source files in a store whose parts are held from step to step, where one process does all steps of a run.

What was fetched of a file is not fetched again. That the file is still the one that was listed is looked for
as before: a file that was replaced is refused, whatever is held of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hipslake.sources.source_file import SourceFile
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile

MOST_HELD = 64 << 20
"""Bytes of the files together that are held."""

_END_BYTES = 64 << 10  # of a file, fetched first: most footers are smaller


class _Held:
    """Files that are held, by what they were listed as."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, int, str], HeldFile] = {}
        self.bytes = 0
        self.lock = threading.Lock()

    def of(self, storage: Storage, name: str, file: SourceFile) -> HeldFile:
        key = file.uri, file.size, file.stamp
        with self.lock:
            known = self.files.get(key)
            if known is None and self.bytes + file.size <= MOST_HELD:
                known = self.files[key] = HeldFile(storage, name, file.size)
                self.bytes += file.size
        if known is None:
            return HeldFile(storage, name, file.size)
        for begin, end in known.missing([(max(0, file.size - _END_BYTES), file.size)], 1):
            known.fetch(begin, end)
        return known.again()


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
        return HeldFile(storage, name, file.size)
    return held.of(storage, name, file)
