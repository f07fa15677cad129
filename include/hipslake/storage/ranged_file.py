"""Objects of stores as files that are read by ranges, for Python and for pyarrow."""

from __future__ import annotations

import errno
import io
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from hipslake.errors import NotReadableError
from hipslake.storage.failures import storage_errors

MOST_UNSIZED = 1 << 30
"""Bytes that are taken from a server which does not say how many there are: its answer may have no end."""

_PIECE = 1 << 20
_MOST_AT_ONCE = 64 << 20  # bytes of one request, which has to end in time; longer reads are several


def read_unsized(fs: Any, uri: str) -> bytes:
    """The content of an object whose size its server does not tell.

    Raises
    ------
    NotReadableError
        It has no end so soon.
    """
    pieces, size = [], 0
    with fs.open(uri, "rb", block_size=0) as stream:
        while piece := stream.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_UNSIZED:
                raise NotReadableError(
                    f"{uri}: the server does not say how long it is, and sends more than "
                    f"{MOST_UNSIZED >> 20} MiB; have it tell Content-Length, or copy the file"
                )
    return b"".join(pieces)


class RangedFile(io.RawIOBase):
    """An object of a store, opened for reading: every read is a request for exactly its range.

    Of more than 64 MiB it is several.

    Parquet readers know what they need, and use it as it is; sequential readers put a buffer before it. A
    server that knows no ranges sends the whole object, which is then kept.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
        Or another object with its `info`, `cat_file` and `open`.
    uri : str
    size : int, optional
        Its size in bytes, where that is known; else the server is asked. If it has another by now, reading it
        is an error.

    Raises
    ------
    FileNotFoundError
        There is no such object; where its size was given, the first read says so.
    """

    def __init__(self, fs: Any, uri: str, size: int | None = None) -> None:
        super().__init__()
        self._fs, self._uri, self._at = fs, uri, 0
        self._whole: bytes | None = None
        self._size = self._ask_size() if size is None else size

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

    def read(self, size: int | None = -1, /) -> Any:
        stop = self._size if size is None or size < 0 else min(self._at + size, self._size)
        data = self._range(self._at, stop) if stop > self._at else b""
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return bytes(self.read())

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _ask_size(self) -> int:
        with storage_errors(self._uri, "read", foreign=True):
            info = self._fs.info(self._uri)
            if info["type"] == "directory":
                raise FileNotFoundError(errno.ENOENT, "a folder, not a file", self._uri)
            if info["size"] is not None:
                return int(info["size"])
            self._whole = read_unsized(self._fs, self._uri)  # a web server makes the answer up as it goes
            return len(self._whole)

    def _range(self, start: int, stop: int) -> Any:
        if stop - start > _MOST_AT_ONCE and self._whole is None:
            starts = range(start, stop, _MOST_AT_ONCE)
            return b"".join(self._range(at, min(at + _MOST_AT_ONCE, stop)) for at in starts)
        if self._whole is None:
            with storage_errors(self._uri, "read", foreign=True):
                data = self._fs.cat_file(self._uri, start=start, end=stop)
                if len(data) == stop - start:
                    return data
                if len(data) != self._size:
                    raise OSError(
                        f"bytes {start} to {stop} of {self._size} were asked for, and {len(data)} came: it "
                        "was replaced meanwhile, or the answer was cut off"
                    )
            self._whole = bytes(data)
        return self._whole[start:stop]


class RangedHandler(pafs.FSSpecHandler):  # type: ignore[misc]
    """fsspec for pyarrow, which reads files by ranges of its own choice."""

    def get_file_info(self, paths: list[str]) -> list[Any]:
        with storage_errors(self.fs.unstrip_protocol(paths[0]) if paths else "", "read", foreign=True):
            return list(super().get_file_info(paths))

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(RangedFile(self.fs, self.fs.unstrip_protocol(path)), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)
