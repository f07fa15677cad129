"""The pointers at a catalog's root, each replaced or removed atomically, unless there is a newer version."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from hipslake.storage.folder import Storage
from hipslake.storage.small_files import together
from hipslake.versions.log_files import CURRENT, version_path


class PointerFiles:
    """Changes the pointers at the root of a catalog, which other runs may be changing too.

    All methods return whether the log must be read again: True if they changed something, or another run did
    meanwhile. No pointer is changed once there is a version after `number`.

    Parameters
    ----------
    storage : Storage
        At the root.
    number : int
        The newest version.
    watched : collection of str
        Pointers that are read now, and not changed if another run changes them after this: a slow run could
        else restore an old pointer, whose files may be deleted.
    """

    def __init__(self, storage: Storage, number: int, watched: Collection[str] = ()) -> None:
        self._storage = storage
        self._number = number
        standing = together(storage, *(partial(self._standing, path) for path in watched))
        self._before = dict(zip(watched, standing, strict=True))

    def link(self, path: str, target: str) -> bool:
        """Make a symbolic link point to a target; False where the store has no links."""
        standing = self._storage.symlink_target(path)
        if standing == target:
            return False
        if self._before.get(path, standing) != standing:
            return True
        return self._storage.symlink(path, target)

    def replace(self, contents: Mapping[str, bytes]) -> bool:
        """Write the contents of files, by path: on a local disk in their order, in a store side by side."""
        if self._storage.is_local:
            changed = [path for path, content in contents.items() if self._replace(path, content)]
            return bool(changed)
        asks = [partial(self._standing, path) for path in contents]
        *standing, overtaken = together(self._storage, *asks, self._overtaken)
        now = dict(zip(contents, standing, strict=True))
        changed = [path for path, content in contents.items() if self._before.get(path, now[path]) != content]
        if not overtaken:
            mine = [path for path in changed if self._before.get(path, now[path]) == now[path]]
            together(self._storage, *(partial(self._storage.write, path, contents[path]) for path in mine))
        return bool(changed)

    def remove(self, paths: Sequence[str]) -> bool:
        """Remove files or symbolic links."""
        return any(together(self._storage, *(partial(self._remove, path) for path in paths)))

    def _replace(self, path: str, content: bytes) -> bool:
        is_watched = path in self._before
        standing = self._before[path] if is_watched else self._standing(path)
        if standing == content:
            return False
        if not (is_watched and self._standing(path) != standing) and not self._overtaken():
            self._storage.write(path, content)
        return True

    def _remove(self, path: str) -> bool:
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
