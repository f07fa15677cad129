"""A file of a store of which some pieces are fetched side by side before they are read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

_GAP = 64 << 10  # bytes between two pieces that are rather read than asked around


class FetchedFile(io.RawIOBase):
    """A file whose reads are answered from pieces of it, and else by the file itself.

    Parameters
    ----------
    source : pyarrow.NativeFile
        The file.
    pieces : sequence of (int, bytes)
        Where each begins in the file, ascending, and what it holds. They do not overlap.
    """

    def __init__(self, source: Any, pieces: Sequence[tuple[int, bytes]]) -> None:
        super().__init__()
        self._source = source
        self._size = source.size()
        self._starts = np.array([start for start, _ in pieces], np.int64)
        self._pieces = pieces
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = max(0, {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        stop = self._size if size is None or size < 0 else min(self._at + size, self._size)
        data = self._range(self._at, stop) if stop > self._at else b""
        self._at += len(data)
        return data

    def _range(self, start: int, stop: int) -> bytes:
        place = int(np.searchsorted(self._starts, start, side="right")) - 1
        if place >= 0:
            begin, data = self._pieces[place]
            if stop <= begin + len(data):
                return data[start - begin : stop - begin]
        self._source.seek(start)
        return bytes(self._source.read(stop - start))


def fetched_file(storage: Storage, path: str, source: Any, spans: Sequence[tuple[int, int]]) -> Any:
    """A file opened for pyarrow's readers, of which pieces are there already.

    Parameters
    ----------
    storage : Storage
    path : str
    source : pyarrow.NativeFile
        The same file, opened; what is read beyond the pieces comes from it.
    spans : sequence of (int, int)
        Of the pieces, in bytes [start, stop). Those that lie close to each other are fetched as one.
    """
    near = merged_spans(spans, _GAP)
    read = in_threads(storage, lambda span: storage.read_range(path, *span), near)
    # A web server that knows no ranges sends all of the file.
    pieces = [
        (start, data) for (start, stop), data in zip(near, read, strict=True) if len(data) == stop - start
    ]
    return pa.PythonFile(FetchedFile(source, pieces), mode="r")


def merged_spans(spans: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Spans in ascending order, as one where less than `gap` lies between them.

    >>> merged_spans([(40, 50), (0, 10), (12, 20), (15, 18)], 5)
    [(0, 20), (40, 50)]
    """
    found: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if found and start - found[-1][1] < gap:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((start, stop))
    return found
