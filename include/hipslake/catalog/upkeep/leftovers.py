"""What lies in write folders and is not needed any more: found, counted, and deleted.

Folder by folder, since there may be millions of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from hipslake.catalog.upkeep.needed_files import NeededFiles
from hipslake.specs.base import Frozen
from hipslake.storage.folder import Storage
from hipslake.versions.orphans import old_temporary_files


class Removed(Frozen):
    """What went of one write folder; or a file of the catalog's own that a killed process had left."""

    path: str  # relative to the catalog's root
    whole: bool  # all of it is gone; else files stay that a version names
    files: int
    bytes: int


class Size(NamedTuple):
    """Files, and bytes in them."""

    files: int
    bytes: int


def size_of(storage: Storage, path: str) -> Size:
    """The size of a file, or of all files below a folder; nothing there is no file."""
    entries = [*storage.list(path), *storage.unfinished(path)]
    if entries:
        sizes = [size_of(storage, e.path) if e.is_dir else Size(1, e.size) for e in entries]
        return Size(sum(size.files for size in sizes), sum(size.bytes for size in sizes))
    with suppress(FileNotFoundError):
        entry = storage.entry(path)
        return Size(0 if entry.is_dir else 1, entry.size)
    return Size(0, 0)


def delete_unneeded(storage: Storage, folder: str, needed: NeededFiles, *, dry_run: bool) -> Removed | None:
    """Delete all files of a folder but those that are needed, and the folders that then are empty.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    folder : str
        Of a write to which nobody adds files.
    needed : NeededFiles
    dry_run : bool
        Only count.

    Returns
    -------
    Removed or None
        None if all of it is needed.
    """
    files = size = 0
    found = False
    for path, is_dir, each in _unneeded(storage, folder, needed):
        found = True
        files += each.files
        size += each.bytes
        if dry_run:
            continue
        if is_dir:
            storage.delete_tree(path)
        else:
            storage.delete(path)
    return Removed(path=folder, whole=not needed.below(folder), files=files, bytes=size) if found else None


def delete_unfinished(storage: Storage, folder: str, older_than: float, *, dry_run: bool) -> Removed | None:
    """Delete what killed processes have left unfinished in a folder that stays.

    Parameters
    ----------
    storage, folder
        As for `delete_unneeded`.
    older_than : float
        Seconds for which nobody has written to a file.
    dry_run : bool
        Only count.

    Returns
    -------
    Removed or None
        None if there is no such file.
    """
    old = list(_unfinished(storage, folder, older_than))
    size = sum(size_of(storage, path).bytes for path in old)
    if not dry_run:
        for path in old:
            storage.delete(path)
    return Removed(path=folder, whole=False, files=len(old), bytes=size) if old else None


def _unfinished(storage: Storage, folder: str, older_than: float) -> Iterator[str]:
    yield from old_temporary_files(storage, folder, older_than)
    for entry in storage.list(folder):
        if entry.is_dir:
            yield from _unfinished(storage, entry.path, older_than)


def _unneeded(storage: Storage, folder: str, needed: NeededFiles) -> Iterator[tuple[str, bool, Size]]:
    """What can go from a folder: the whole of it, or subfolders and files; path, whether a folder, size."""
    if not needed.below(folder):
        yield folder, True, size_of(storage, folder)
        return
    for entry in [*storage.list(folder), *storage.unfinished(folder)]:
        if entry.is_dir:
            yield from _unneeded(storage, entry.path, needed)
        elif not needed.names(entry.path):
            yield entry.path, False, Size(1, entry.size)
