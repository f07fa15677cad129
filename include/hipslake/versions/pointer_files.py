"""The pointers at a catalog's root, each replaced or removed atomically, unless there is a newer version."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from hipslake.storage.folder import Storage
from hipslake.storage.small_files import together
from hipslake.versions.log_files import CURRENT, POINTER, version_path


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
        Pointers that are not changed if another run has changed them since: a slow run could else restore an
        old pointer, whose files may be deleted.
    seen : mapping
        What `standing_pointers` said of them, and maybe of others, since the last change of this run.
    """

    def __init__(
        self,
        storage: Storage,
        number: int,
        watched: Collection[str],
        seen: Mapping[str, str | bytes | None],
    ) -> None:
        self._storage = storage
        self._number = number
        self._seen = seen
        self._before = {path: seen[path] for path in watched}

    def link(self, path: str, target: str) -> bool:
        """Make a symbolic link point to a target; False where the store has no links."""
        standing = self._storage.symlink_target(path)
        if standing == target:
            return False
        if self._before.get(path, standing) != standing:
            return True
        return self._storage.symlink(path, target)

    def replace(
        self, contents: Mapping[str, bytes], absent: Sequence[str] = (), *, seen_now: bool = False
    ) -> bool:
        """Write the contents of files, by path, and then remove files or symbolic links.

        On a local disk in their order, in a store side by side.

        Parameters
        ----------
        contents, absent
        seen_now
            Whether what was seen of them, and of the log, is no older than the caller's last request: then a
            store is not asked once more before they are written.
        """
        if self._storage.is_local:
            found = [self._replace(path, content) for path, content in contents.items()]
            return any([*found, *(self._remove(path) for path in absent)])
        contents = {path: content for path, content in contents.items() if self._seen.get(path) != content}
        absent = [path for path in absent if self._seen.get(path, b"") is not None]
        if not contents and not absent:
            return False
        if seen_now and not absent and contents.keys() <= {*self._seen, POINTER}:
            together(self._storage, *(partial(self._storage.write, *each) for each in contents.items()))
            return True
        asks = [partial(_standing, self._storage, path) for path in contents]
        looks = [partial(self._storage.is_file, path) for path in absent]
        overtaken, *found = together(self._storage, self._overtaken, *asks, *looks)
        now = dict(zip(contents, found, strict=False))
        changed = [path for path, content in contents.items() if self._before.get(path, now[path]) != content]
        if not overtaken:
            mine = [path for path in changed if self._before.get(path, now[path]) == now[path]]
            together(self._storage, *(partial(self._storage.write, path, contents[path]) for path in mine))
        left = [path for path, stands in zip(absent, found[len(contents) :], strict=True) if stands]
        return any([*changed, *(self._remove(path) for path in left)])

    def _replace(self, path: str, content: bytes) -> bool:
        is_watched = path in self._before
        standing = self._before[path] if is_watched else _standing(self._storage, path)
        if standing == content:
            return False
        if not (is_watched and _standing(self._storage, path) != standing) and not self._overtaken():
            self._storage.write(path, content)
        return True

    def _remove(self, path: str) -> bool:
        if self._storage.symlink_target(path) is None and not self._storage.is_file(path):
            return False
        changed = path in self._before and _standing(self._storage, path) != self._before[path]
        if not changed and not self._overtaken():
            self._storage.delete(path)
        return True

    def _overtaken(self) -> bool:
        return self._storage.is_file(version_path(self._number + 1))


def standing_pointers(storage: Storage, paths: Collection[str]) -> dict[str, str | bytes | None]:
    """What stands at the paths of pointers: targets of links, contents of files, None where there is none."""
    found = together(storage, *(partial(_standing, storage, path) for path in paths))
    return dict(zip(paths, found, strict=True))


def _standing(storage: Storage, path: str) -> str | bytes | None:
    if path == CURRENT:
        return storage.symlink_target(path)
    try:
        return storage.read(path)
    except FileNotFoundError:
        return None
