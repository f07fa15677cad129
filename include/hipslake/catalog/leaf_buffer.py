"""Memory that leaf files are encoded into."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

_FIRST_BYTES = 1 << 20
_MOST_SPARE, _MOST_SPARE_BYTES = 4, 64 << 20  # that a process keeps, and bytes of each


class LeafBuffer:
    """Takes a file that is encoded, and its SHA-256: page by page, while the cache of the core has them.

    Arrow takes it for a file of Python's. A few are kept by the process and used again: a new one is copied
    time and again as it grows, into memory that the kernel has to clear.
    """

    closed = False

    def __init__(self) -> None:
        self._room = np.frombuffer(pa.allocate_buffer(_FIRST_BYTES), np.uint8)
        self._size, self._digest = 0, hashlib.sha256()

    @classmethod
    def taken(cls) -> LeafBuffer:
        """An empty one, which was given back before or is new."""
        try:
            taken = _spare.pop()
        except IndexError:
            return cls()
        taken._size, taken._digest = 0, hashlib.sha256()
        return taken

    def give_back(self) -> None:
        """Let others use it: nobody looks at its content any more."""
        if len(_spare) < _MOST_SPARE and len(self._room) <= _MOST_SPARE_BYTES:
            _spare.append(self)

    def write(self, content: Any) -> int:
        """Append some bytes; return how many."""
        added = np.frombuffer(content, np.uint8)
        size = self._size + len(added)
        if size > len(self._room):
            room = np.frombuffer(pa.allocate_buffer(max(size, 2 * len(self._room))), np.uint8)
            room[: self._size] = self._room[: self._size]
            self._room = room
        self._room[self._size : size] = added
        self._digest.update(content)
        self._size = size
        return len(added)

    def tell(self) -> int:
        """The size of the file so far, in bytes."""
        return self._size

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """The content stays."""

    @property
    def content(self) -> pa.Buffer:
        """The file, as a view of this memory."""
        return pa.py_buffer(self._room[: self._size])

    @property
    def sha256(self) -> str:
        """Of the file, in hexadecimal."""
        return self._digest.hexdigest()


_spare: list[LeafBuffer] = []  # of this process, whose threads take and give one at a time
