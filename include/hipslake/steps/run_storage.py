"""Files of a run folder in a store that are kept in memory while a step runs.

What the steps before have left does not change meanwhile, so it is fetched once, and side by side where the
step says that it reads it; what the step itself writes need not be fetched either. Where one process does all
steps of a run, files are kept from step to step, and stored while the work goes on, side by side and at most
a second later: nobody else reads them before the run has ended. A step that commits waits for them first
(`settled`), so that a version that stands has the files that it was made by. Counts that a step adds up and
deletes again are not stored at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import PurePosixPath
from threading import Lock, Timer
from typing import Any

from hipslake.errors import HipslakeError
from hipslake.sources.held_sources import holding_sources
from hipslake.steps.run_notes import RunNotes
from hipslake.storage.entry import Entry
from hipslake.storage.folder import Storage
from hipslake.storage.request_loop import AsyncAsk
from hipslake.storage.small_files import in_threads
from hipslake.storage.store_threads import begin

MOST_KEPT = 4 << 20
"""Bytes of a file that a step writes, up to which it is kept."""

_MOST_READ = 1 << 20  # bytes of a file that it reads, likewise
_MOST_TOGETHER = 64 << 20  # and of all of them

_MOST_COMING = 32  # files that wait, or are being stored, at the same time
_LATEST = 1.0  # seconds that a file waits for others

_BEHIND = ("requests/", "reports/", "histogram/", "append/", "run.json", "files.json")
"""What a process that does all steps stores behind its work; all that reads it goes by `run_storage`."""
_PASSING = "histogram/parts/"
"""What the step that writes it deletes again."""
_Entries = list[Entry]  # inside RunStorage, `list` is a method
_AsyncAsks = list[AsyncAsk | None]
_Futures = dict[str, Future[Any]]
_KEPT: ContextVar[RunStorage | None] = ContextVar("kept", default=None)
_OWN: dict[tuple[int, str], RunStorage] = {}  # of this process, by their roots: for tasks in other threads


class RunStorage(Storage):
    """A run folder in a store, some of whose files are in memory. Pickled, it is the folder alone."""

    kept: dict[str, bytes]
    changing: set[str]  # files that others may write meanwhile
    is_own: bool  # of a run that begins, and whose steps are all done by this process
    notes: RunNotes  # what else is known from step to step
    _waiting: dict[str, tuple[bytes, bool]]  # files that are to be stored with others, by path
    _joining: dict[str, Callable[[], object]]  # what else is to be done with them
    _timer: Timer | None  # that begins to store them
    _coming: _Futures  # files that are being stored, likewise, and what else is done behind the work
    _lock: Lock
    _stored: set[str]  # files that were or are being stored by this process, of those in `_BEHIND`

    def __init__(self, root: str, *, is_own: bool = False) -> None:
        super().__init__(root)
        object.__setattr__(self, "kept", {})
        object.__setattr__(self, "changing", set())
        object.__setattr__(self, "is_own", is_own)
        object.__setattr__(self, "notes", RunNotes())
        object.__setattr__(self, "_joining", {})
        object.__setattr__(self, "_waiting", {})
        object.__setattr__(self, "_timer", None)
        object.__setattr__(self, "_coming", {})
        object.__setattr__(self, "_lock", Lock())
        object.__setattr__(self, "_stored", set())

    def __reduce__(self) -> Any:
        return Storage, (self.root,)

    def fetch(self, paths: Sequence[str]) -> list[bytes | None]:
        """Fetch files side by side, and keep them; None for those that do not exist."""
        found = list(in_threads(self, self._read_if_there, paths))
        self.kept.update((path, data) for path, data in zip(paths, found, strict=True) if data is not None)
        return found

    def _read_if_there(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return super().read(path)
        return None

    def settle(self) -> None:
        """Wait until all is stored, and done; raises what has kept something from it, each time."""
        self.flush()
        coming = [*self._coming.values()]
        wait(coming)
        for future in coming:
            future.result()

    def flush(self) -> None:
        """Begin to store what waits."""
        with self._lock:
            for path, future in [*self._coming.items()]:
                if future.done() and future.exception() is None:
                    del self._coming[path]
            if self._timer is not None:
                self._timer.cancel()
                object.__setattr__(self, "_timer", None)
            waiting, joining = [*self._waiting.items()], [*self._joining.items()]
            self._waiting.clear()
            self._joining.clear()
            for path, (data, durable) in waiting:
                self._coming[path] = begin(partial(self._store, path, data, durable, self._coming.get(path)))
            for name, call in joining:
                self._coming[name] = begin(call)

    def with_next(self, name: str, call: Callable[[], object]) -> None:
        """As `behind`, begun when files that wait are begun to be stored, and not before."""
        with self._lock:
            self._joining[name] = partial(copy_context().run, call)

    def _store(self, path: str, data: bytes, durable: bool, before: Future[Any] | None) -> None:
        if before is not None:  # what was written there before may not come last
            wait([before])
        super().write(path, data, durable=durable)

    def behind(self, name: str, call: Callable[[], object]) -> None:
        """Do something while the work goes on; `settle` waits for it, and raises its error."""
        with self._lock:
            while name in self._coming:
                name += "'"
            self._coming[name] = begin(call)

    def forget(self) -> None:
        """Keep nothing of what is here by now, as others have written, too."""
        self.settle()
        self.kept.clear()
        object.__setattr__(self, "is_own", False)

    def entry(self, path: str) -> Entry:
        self.settle()
        return super().entry(path)

    def is_file(self, path: str) -> bool:
        if path in self.kept:
            return True
        if self._is_empty(path):
            return False
        self.settle()
        return super().is_file(path)

    def list(self, path: str = "", *, recursive: bool = False) -> _Entries:
        if self._is_empty(path):
            return []
        self.settle()
        return super().list(path, recursive=recursive)

    def read(self, path: str) -> bytes:
        kept = self.kept.get(path)
        if kept is None and self._is_empty(path):
            raise FileNotFoundError(self.uri(path))
        if kept is None:
            self._settle_one(path)
            kept = super().read(path)
            if path in self.changing:
                return kept
            if len(kept) <= _MOST_READ and sum(map(len, [*self.kept.values()])) <= _MOST_TOGETHER:
                self.kept[path] = kept
        return kept

    def write(self, path: str, data: Any, *, durable: bool = True) -> None:
        is_small = memoryview(data).nbytes <= MOST_KEPT
        behind = self.is_own and path.startswith(_BEHIND)
        if behind and is_small and path.startswith(_PASSING):
            self.kept[path] = bytes(data)
            return
        self.kept.pop(path, None)
        if behind:
            self._stored.add(path)
        if behind and is_small and len(self._coming) + len(self._waiting) < _MOST_COMING:
            with self._lock:
                self._waiting[path] = bytes(data), durable
                if self._timer is None:  # in the caller's context, which holds the credentials of stores
                    timer = Timer(_LATEST, copy_context().run, [self.flush])
                    timer.daemon = True
                    timer.start()
                    object.__setattr__(self, "_timer", timer)
        else:
            self._settle_one(path)
            super().write(path, data, durable=durable)
        if is_small:
            self.kept[path] = bytes(data)

    def write_all(self, files: Mapping[str, Any], *, durable: bool = True) -> None:
        for path, data in files.items():
            self.write(path, data, durable=durable)

    def create(self, path: str, data: bytes) -> bool:
        self._stored.add(path)
        return super().create(path, data)

    def open(self, path: str, mode: str = "rb", *, durable: bool = True) -> Any:
        self.settle()
        if mode != "rb":
            self.kept.pop(path, None)
            self._stored.add(path)
        return super().open(path, mode, durable=durable)  # type: ignore[call-overload]

    def range_buffer(self, path: str, start: int, stop: int) -> Any:
        self.settle()
        return super().range_buffer(path, start, stop)

    def awaited_ranges(self, asked: Sequence[tuple[str, int, int]]) -> _AsyncAsks:
        self.settle()
        return super().awaited_ranges(asked)

    def read_tail(self, path: str, most: int) -> bytes:
        self.settle()
        return super().read_tail(path, most)

    def sha256(self, path: str) -> str:
        self.settle()
        return super().sha256(path)

    def arrow_file(self, path: str, size: int | None = None) -> Any:
        self.settle()
        return super().arrow_file(path, size)

    def arrow_path(self, path: str = "") -> str:
        self.settle()
        return super().arrow_path(path)

    def delete(self, path: str) -> None:
        self.settle()
        self.kept.pop(path, None)
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        for kept in [*self.kept]:
            if PurePosixPath(kept).is_relative_to(path):
                self.kept.pop(kept, None)
        if self._is_empty(path):
            return
        self.settle()
        super().delete_tree(path)

    def link(self, source: str, target: str, *, durable: bool = True) -> bool:
        self.settle()
        self.kept.pop(target, None)
        self._stored.add(target)
        return super().link(source, target, durable=durable)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        self.settle()
        self.kept.pop(target, None)
        self._stored.add(target)
        super().copy(source, target, durable=durable)

    def _settle_one(self, path: str) -> None:
        if path in self._waiting:
            self.flush()
        with self._lock:
            coming = self._coming.get(path)
        if coming is not None:
            wait([coming])

    def _is_empty(self, path: str) -> bool:
        """Whether nothing was stored at a path that only this process writes at, so that nobody need look."""
        if not (self.is_own and path.startswith(_BEHIND)):
            return False
        return not any(PurePosixPath(stored).is_relative_to(path) for stored in [*self._stored])


def run_storage(uri: str) -> Storage:
    """The storage at a run folder: that which keeps files, for the run of the step under way."""
    storage, kept = Storage.at(uri), _KEPT.get()
    if kept is not None and kept.root == storage.root:
        return kept
    return _OWN.get((os.getpid(), storage.root), storage)


@contextmanager
def own_run(uri: str) -> Iterator[RunStorage | None]:
    """Keep files of a run folder in a store from step to step, in the process that does all of them.

    Parameters
    ----------
    uri : str
        Of the run folder, which does not exist yet.

    Yields
    ------
    RunStorage or None
        What keeps them; None of a folder on a local disk.
    """
    storage = Storage.at(uri)
    if storage.is_local:
        yield None
        return
    kept = RunStorage(storage.root, is_own=True)
    token, place = _KEPT.set(kept), (os.getpid(), kept.root)
    _OWN[place] = kept
    try:
        with holding_sources():
            yield kept
    except BaseException:
        with suppress(HipslakeError, OSError):
            kept.settle()
        raise
    else:
        kept.settle()
    finally:
        _OWN.pop(place, None)
        _KEPT.reset(token)
        kept.notes.end()


@contextmanager
def keeping_files(uri: str, paths: Sequence[str], probed: str = "") -> Iterator[bytes | None]:
    """Keep files of a run folder in a store during a step, or during a part of it.

    Parameters
    ----------
    uri : str
        Of the run folder.
    paths : sequence of str
        Files that earlier steps have left, and this one reads; they are fetched at the beginning.
    probed : str, optional
        One more file, which may be missing, and is not kept.

    Yields
    ------
    bytes or None
        What `probed` holds; None if it is missing, or not given.
    """
    storage = Storage.at(uri)
    if storage.is_local:
        found = None
        if probed:
            with suppress(FileNotFoundError):
                found = storage.read(probed)
        yield found
        return
    outer = _KEPT.get()
    kept = outer if outer is not None and outer.root == storage.root else RunStorage(storage.root)
    paths = [path for path in paths if path not in kept.kept]
    if kept.is_own:  # what it has not reported nobody has
        kept.fetch(paths)
        found = kept.kept.get(probed)
    else:
        found = [*kept.fetch([*paths, probed] if probed else paths), None][len(paths)]
        kept.kept.pop(probed, None)
        kept.changing.add(probed)
    token = _KEPT.set(kept)
    try:
        yield found
    finally:
        _KEPT.reset(token)
