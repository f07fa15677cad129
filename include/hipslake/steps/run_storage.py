"""Files of a run folder in a store that are kept in memory while a step runs.

What the steps before have left does not change meanwhile, so it is fetched once, and side by side where the
step says that it reads it; what the step itself writes need not be fetched either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import PurePosixPath
from typing import Any

from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

MOST_KEPT = 4 << 20
"""Bytes of a file that a step writes, up to which it is kept."""

_MOST_READ = 1 << 20  # bytes of a file that it reads, likewise
_MOST_TOGETHER = 64 << 20  # and of all of them

_KEPT: ContextVar[RunStorage | None] = ContextVar("kept", default=None)


class RunStorage(Storage):
    """A run folder in a store, some of whose files are in memory. Pickled, it is the folder alone."""

    kept: dict[str, bytes]
    changing: set[str]  # files that others may write meanwhile

    def __init__(self, root: str) -> None:
        super().__init__(root)
        object.__setattr__(self, "kept", {})
        object.__setattr__(self, "changing", set())

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

    def read(self, path: str) -> bytes:
        kept = self.kept.get(path)
        if kept is None:
            kept = super().read(path)
            if path in self.changing:
                return kept
            if len(kept) <= _MOST_READ and sum(map(len, [*self.kept.values()])) <= _MOST_TOGETHER:
                self.kept[path] = kept
        return kept

    def write(self, path: str, data: Any, *, durable: bool = True) -> None:
        self.kept.pop(path, None)
        super().write(path, data, durable=durable)
        if memoryview(data).nbytes <= MOST_KEPT:
            self.kept[path] = bytes(data)

    def open(self, path: str, mode: str = "rb", *, durable: bool = True) -> Any:
        if mode != "rb":
            self.kept.pop(path, None)
        return super().open(path, mode, durable=durable)  # type: ignore[call-overload]

    def delete(self, path: str) -> None:
        self.kept.pop(path, None)
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        for kept in [*self.kept]:
            if PurePosixPath(kept).is_relative_to(path):
                self.kept.pop(kept, None)
        super().delete_tree(path)

    def link(self, source: str, target: str, *, durable: bool = True) -> bool:
        self.kept.pop(target, None)
        return super().link(source, target, durable=durable)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        self.kept.pop(target, None)
        super().copy(source, target, durable=durable)


def run_storage(uri: str) -> Storage:
    """The storage at a run folder: that which keeps files, for the run of the step under way."""
    storage, kept = Storage.at(uri), _KEPT.get()
    return kept if kept is not None and kept.root == storage.root else storage


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
    found = [*kept.fetch([*paths, probed] if probed else paths), None][len(paths)]
    kept.kept.pop(probed, None)
    kept.changing.add(probed)
    token = _KEPT.set(kept)
    try:
        yield found
    finally:
        _KEPT.reset(token)
