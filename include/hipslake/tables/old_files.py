"""Files that a table does not name, and that are too old to be about to come into it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hipslake.storage.entry import Entry
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import StoreClock

_DAY = 24 * 3600


class OrphanFile(NamedTuple):
    """A file that nothing names.

    Attributes
    ----------
    root : Storage
    path : str
        Relative to the root.
    bytes : int
    """

    root: Storage
    path: str
    bytes: int

    @property
    def uri(self) -> str:
        """Where it lies."""
        return self.root.uri(self.path)


def is_data_name(entry: Entry) -> bool:
    """Whether a file is one, and neither its name nor a folder of its path begins with a dot or underscore.

    Folders of partitions, `_column=value`, are data.
    """
    *folders, name = entry.path.split("/")
    hidden = name[0] in "._" or any(part[0] in "._" and "=" not in part for part in folders)
    return not (hidden or entry.is_dir or entry.is_special)


def old_files(found: Iterable[tuple[Storage, Entry]], clock: StoreClock, days: float) -> list[OrphanFile]:
    """Those of some files that are so many days old, sorted by address.

    None of a store that does not say when its files were written.
    """
    old = [
        OrphanFile(root, entry.path, entry.size)
        for root, entry in found
        if _age(clock, root, entry.path) >= days * _DAY
    ]
    return sorted(old, key=lambda file: file.uri)


def _age(clock: StoreClock, root: Storage, path: str) -> float:
    """Seconds; negative if the store does not say, or the file is gone."""
    try:
        now, written = clock.now, root.written(path)
    except FileNotFoundError:
        return -1.0
    return -1.0 if now is None or written is None else now - written
