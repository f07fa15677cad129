"""The clock of a store, by which the age of a file is told: hosts need not agree on the time.

A file's time of writing comes from the store, so it is compared with that of a file which was written to the
same store just now. What the clocks of the hosts say does not matter.
"""

from __future__ import annotations

import secrets
from functools import cached_property

from hipslake.storage.folder import Storage
from hipslake.versions.log_files import VERSIONS


class StoreClock:
    """Tells the ages of files at one moment: that of the first question.

    Parameters
    ----------
    storage
        At the root of the catalog.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @cached_property
    def now(self) -> float | None:
        """The time by the clock of the store, in seconds since 1970; None if the store tells no times."""
        probe = f"{VERSIONS}/.clock.{secrets.token_hex(4)}.tmp"  # what a kill leaves is swept by this name
        self._storage.write(probe, b"", durable=False)
        try:
            return self._storage.written(probe)
        finally:
            self._storage.delete(probe)

    def age(self, path: str) -> float | None:
        """Seconds since a file was written; negative if it was written since the first question.

        None if the store tells no times; `FileNotFoundError` if there is no such file.
        """
        now = self.now
        written = self._storage.written(path)
        return None if now is None or written is None else now - written
