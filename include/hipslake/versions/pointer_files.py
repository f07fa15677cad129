"""The pointers at a catalog's root, each replaced or removed in one step, unless a newer version stands."""

from __future__ import annotations

from collections.abc import Collection

from hipslake.storage.folder import Storage
from hipslake.versions.log_files import CURRENT, version_path


class PointerFiles:
    """Changes the pointers at the root of a catalog, which other runs may be changing too.

    All methods return whether the log must be looked at again: True if something was changed, or was changed
    by another run meanwhile. A pointer is left alone once a version after `number` stands.

    Parameters
    ----------
    storage : Storage
        At the root.
    number : int
        The newest version.
    watched : collection of str
        Pointers that are read now, and left alone if another run changes them after this. A slow run would
        else put back what a newer one has replaced, and the files that it leads to may be gone.
    """

    def __init__(self, storage: Storage, number: int, watched: Collection[str] = ()) -> None:
        self._storage = storage
        self._number = number
        self._before = {path: self._standing(path) for path in watched}

    def link(self, path: str, target: str) -> bool:
        """Let a symbolic link lead to a target; where there are no links, nothing is to be looked at."""
        standing = self._storage.symlink_target(path)
        if standing == target:
            return False
        if self._before.get(path, standing) != standing:
            return True
        return self._storage.symlink(path, target)

    def replace(self, path: str, content: bytes) -> bool:
        """Give a file a content."""
        is_watched = path in self._before
        standing = self._before[path] if is_watched else self._standing(path)
        if standing == content:
            return False
        if not (is_watched and self._standing(path) != standing) and not self._overtaken():
            self._storage.write(path, content)
        return True

    def remove(self, path: str) -> bool:
        """Remove a file or a symbolic link."""
        if self._storage.symlink_target(path) is None and not self._storage.is_file(path):
            return False
        if (path not in self._before or self._standing(path) == self._before[path]) and not self._overtaken():
            self._storage.delete(path)
        return True

    def _standing(self, path: str) -> str | bytes | None:
        """The target of a link, or the content of a file."""
        if path == CURRENT:
            return self._storage.symlink_target(path)
        try:
            return self._storage.read(path)
        except FileNotFoundError:
            return None

    def _overtaken(self) -> bool:
        return self._storage.is_file(version_path(self._number + 1))
