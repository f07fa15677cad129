"""A file of a store of which some ranges are in memory already, opened for pyarrow's readers."""

from __future__ import annotations

import io
import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from hipslake.errors import StorageError
from hipslake.storage.folder import Storage
from hipslake.storage.request_pool import AskedRange, RequestPool

HOLE_BYTES = 8 << 10
"""A gap between two ranges that is fetched along: as many bytes as Arrow's own readers fetch along."""

_WIDEST_HOLE = 1 << 20  # which comes sooner than an answer to another request
_MOST_AT_ONCE = 16 << 20  # bytes of one request: longer ranges are several, side by side

Range = tuple[int, int]
"""Bytes [start, stop) of a file."""


class HeldFile(io.RawIOBase):
    """A file whose ranges are fetched before they are read; others are asked for when they are read.

    Ranges may be fetched in several threads at once.

    Parameters
    ----------
    storage : Storage
    path : str
    size : int
        In bytes. A file that has another by now cannot be read.
    before_request : callable, optional
        Called before each request for a range.
    """

    def __init__(
        self, storage: Storage, path: str, size: int, before_request: Callable[[], object] | None = None
    ) -> None:
        super().__init__()
        self._storage, self._path, self._size = storage, path, size
        self._before_request = before_request or (lambda: None)
        self._at = 0
        self._pieces: list[tuple[int, Any]] = []  # ascending by start, and by stop
        self._lock = threading.Lock()

    def again(self, before_request: Callable[[], object] | None = None) -> HeldFile:
        """Open the file once more, with all that is held of it, and that either of them will hold."""
        other = HeldFile(self._storage, self._path, self._size, before_request)
        other._pieces, other._lock = self._pieces, self._lock
        return other

    def fetch(self, start: int, stop: int) -> None:
        """Fetch a range and hold it; of one that comes in part, who reads it hears.

        Raises
        ------
        FileNotFoundError
        StorageError
        """
        self._before_request()
        self.hold(start, stop, self._storage.range_buffer(self._path, start, stop))

    def fetch_all(
        self, ranges: Sequence[Range], pool: RequestPool, beside: Callable[[], object] = lambda: None
    ) -> None:
        """Fetch ranges side by side; as of `fetch`. `beside` is called when they are under way."""
        if ranges:
            self._before_request()
        asked = [AskedRange(self._storage, self._path, *each) for each in ranges]
        begun = pool.ranges(asked)
        beside()
        for (start, stop), came in zip(ranges, begun, strict=True):
            self.hold(start, stop, came.result())

    def hold(self, start: int, stop: int, data: Any) -> None:
        """Hold what came for a range, if it is all of it.

        Parameters
        ----------
        start, stop : int
        data : buffer
            As `Storage.range_buffer` gives it.
        """
        with self._lock:
            if len(data) == self._size:  # all of it: a server may know no ranges
                self._pieces[:] = [(0, data)]
            elif len(data) == stop - start:
                self._insert(start, data)

    def hold_end(self, start: int, data: Any) -> bool:
        """Hold what came from a byte on if the file ends where it should; whether it does.

        Parameters
        ----------
        start : int
        data : buffer
            Of a request for at least a byte more than there should be.
        """
        if len(data) == self._size:  # all of it: a server may know no ranges
            start = 0
        if start + len(data) != self._size:
            return False
        with self._lock:
            self._insert(start, data)
        return True

    def _insert(self, start: int, data: Any) -> None:
        """Hold a piece, unless another holds all of it, and no more those that it holds all of.

        So of two pieces the one that begins first also ends first.
        """
        stop, kept = start + len(data), []
        for first, held in self._pieces:
            if first <= start and first + len(held) >= stop:
                return
            if first < start or first + len(held) > stop:
                kept.append((first, held))
        insort(kept, (start, data), key=lambda piece: piece[0])
        self._pieces[:] = kept

    @property
    def bytes_held(self) -> int:
        """How many bytes are held."""
        with self._lock:
            return sum(len(data) for _, data in self._pieces)

    def missing(self, ranges: Iterable[Range], most: int) -> list[Range]:
        """What is to be fetched so that some ranges are held, in as few requests as `most` where it can be.

        Parameters
        ----------
        ranges : iterable of Range
        most : int
            Of more, those with little between them become one, up to gaps of 1 MiB.
        """
        wanted = []
        inside = ((max(0, start), min(stop, self._size)) for start, stop in ranges)  # of damaged files
        for start, stop in merged((each for each in inside if each[0] < each[1]), most):
            begin = self._begin_of_held(stop)
            wanted += [(at, min(at + _MOST_AT_ONCE, begin)) for at in range(start, begin, _MOST_AT_ONCE)]
        return wanted

    def arrow(self) -> pa.PythonFile:
        """The file for pyarrow."""
        return pa.PythonFile(self, mode="r")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read_buffer(self, size: int | None = -1, /) -> Any:
        """The next bytes as something with a buffer, without a copy where a piece holds them all."""
        stop = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if stop <= self._at:
            return b""
        start, self._at = self._at, stop
        held = self._held(start, stop)
        return self._gathered(start, stop) if held is None else held

    def read(self, size: int | None = -1, /) -> bytes:
        return bytes(self.read_buffer(size))

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read_buffer(len(view))
        view[: len(data)] = data
        return len(data)

    def _begin_of_held(self, stop: int) -> int:
        """Where the pieces begin that hold, one after the other, what comes before a byte; it, if none do."""
        with self._lock:
            while stop > 0:
                at = bisect_right(self._pieces, stop - 1, key=lambda piece: piece[0])
                first, data = self._pieces[at - 1] if at else (stop, b"")
                if first + len(data) < stop or not data:
                    break
                stop = first
        return stop

    def _held(self, start: int, stop: int) -> memoryview | None:
        """A range, if one piece holds all of it."""
        with self._lock:
            at = bisect_right(self._pieces, start, key=lambda piece: piece[0])
            if not at:
                return None
            first, data = self._pieces[at - 1]
        if first + len(data) < stop:
            return None
        return memoryview(data)[start - first : stop - first]

    def _gathered(self, start: int, stop: int) -> bytes:
        """A range of which pieces hold some; the rest is asked for."""
        found: list[Any] = []
        while start < stop:
            with self._lock:
                at = bisect_right(self._pieces, start, key=lambda piece: piece[0])
                first, data = self._pieces[at - 1] if at else (0, b"")
                begins = self._pieces[at][0] if at < len(self._pieces) else stop
            if first + len(data) > start:
                piece = memoryview(data)[start - first : stop - first]
            else:
                piece = memoryview(self._asked(start, min(begins, stop, start + _MOST_AT_ONCE)))
            found.append(piece)
            start += len(piece)
        return b"".join(found)

    def _asked(self, start: int, stop: int) -> bytes:
        self._before_request()
        data = self._storage.read_range(self._path, start, stop)
        if len(data) == stop - start:
            return data
        if len(data) == self._size:
            return data[start:stop]
        raise StorageError(
            f"{self._storage.uri(self._path)}: could not be read (bytes {start} to {stop} of {self._size} "
            f"were asked for, and {len(data)} came: it was replaced meanwhile, or the answer was cut off); "
            "check the file system or store, then retry"
        )


def merged(ranges: Iterable[Range], most: int) -> list[Range]:
    """Ranges as few and long ones, ascending: gaps of up to 8 KiB are filled.

    Where there are more than `most` then, gaps of up to 1 MiB are filled as well, the smallest first.

    Examples
    --------
    >>> merged([(30_000, 40_000), (0, 100), (200, 300)], 2)
    [(0, 300), (30000, 40000)]
    >>> merged([(30_000, 40_000), (0, 100), (200, 300)], 1)
    [(0, 40000)]
    """
    found: list[Range] = []
    for start, stop in sorted(ranges):
        if found and start - found[-1][1] <= HOLE_BYTES:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((start, stop))
    gaps = sorted(right[0] - left[1] for left, right in pairwise(found))
    filled = gaps[: max(0, len(found) - most)]
    if not filled:
        return found
    widest = min(filled[-1], _WIDEST_HOLE)
    fewer = found[:1]
    for start, stop in found[1:]:
        if start - fewer[-1][1] <= widest:
            fewer[-1] = fewer[-1][0], stop
        else:
            fewer.append((start, stop))
    return fewer
