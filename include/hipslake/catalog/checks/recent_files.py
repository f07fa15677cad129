"""Small files kept in memory for as long as they are likely to be asked for again.

The margin of a tile has rows of all leaves around it, so a walk along the curve comes back to a margin file
once for each of them: nine times in a plain tiling, and far more often where a margin is wide.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import pyarrow as pa

MOST_BYTES = 64 << 20  # held at once
LARGEST_FILE = 2 << 20  # as it is stored; larger ones are read by row groups, each time


class RecentFiles:
    """The rows of the files that were asked for last, for several threads.

    Parameters
    ----------
    read : callable
        Reads a file whole, given by its path and its size in bytes.
    most_bytes : int, optional
        Rows in memory that are kept together.
    """

    def __init__(
        self, read: Callable[[str, int], list[pa.RecordBatch]], most_bytes: int = MOST_BYTES
    ) -> None:
        self._read, self._most_bytes = read, most_bytes
        self._kept: OrderedDict[str, list[pa.RecordBatch]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def batches(self, path: str, size: int) -> list[pa.RecordBatch]:
        """All rows of a file.

        Raises
        ------
        VerificationError
            The file is missing or damaged.
        """
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        batches = self._read(path, size)  # by two threads at once, if both ask first: no harm in that
        with self._lock:
            if path not in self._kept:
                self._kept[path] = batches
                self._bytes += _bytes_of(batches)
            while self._bytes > self._most_bytes:
                self._bytes -= _bytes_of(self._kept.popitem(last=False)[1])
        return batches


def _bytes_of(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)
