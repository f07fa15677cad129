"""Files of tasks that run at the same time in a store, of which some are put side by side.

A put of a few MiB takes little longer than an answer of the store. Where each began as soon as its file is
encoded, many would follow each other. So files wait for others, as long as there is something to encode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Condition

from hipslake.steps.run_storage import RunStorage
from hipslake.storage.folder import Storage

MOST_BYTES = 32 << 20
"""Of files that wait."""

_LONGEST = 1.0  # seconds that a file waits


class AtOnce:
    """No file waits for others."""

    def task(self) -> AbstractContextManager[None]:
        """While a task encodes files."""
        return nullcontext()

    def waiting(self) -> AbstractContextManager[None]:
        """While it waits until one of its files is stored."""
        return nullcontext()

    def before(self, size: int) -> None:
        """Wait, in another thread than that of the task, until a file of so many bytes is to be stored."""

    def end(self) -> None:
        """Nothing waits."""


class Together(AtOnce):
    """Files wait until there are `MOST_BYTES` of them, or all tasks wait."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._encoding = 0  # tasks
        self._bytes = 0  # that wait
        self._begun = 0  # times that those which waited were begun

    @contextmanager
    def task(self) -> Iterator[None]:
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._count(-1)
        try:
            yield
        finally:
            self._count(1)

    def before(self, size: int) -> None:
        with self._changed:
            mine = self._begun
            self._bytes += size
            self._look()
            if not self._changed.wait_for(lambda: self._begun > mine, _LONGEST):
                self._begin()

    def _count(self, tasks: int) -> None:
        with self._changed:
            self._encoding += tasks
            self._look()

    def _look(self) -> None:
        if self._bytes and (self._bytes >= MOST_BYTES or self._encoding <= 0):
            self._begin()

    def _begin(self) -> None:
        self._bytes = 0
        self._begun += 1
        self._changed.notify_all()


def stored_together(folder: Storage, catalog: Storage) -> AtOnce:
    """What tasks of a step keep to: that of the process that does all of them, in a store.

    Parameters
    ----------
    folder : Storage
        The run folder.
    catalog : Storage
        Where the files are stored.
    """
    if isinstance(folder, RunStorage) and folder.is_own and not catalog.is_local:
        return folder.notes.of(Together, Together)
    return AtOnce()
