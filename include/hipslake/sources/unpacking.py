"""The content of compressed streams, read from the beginning on, or from a point that is known."""

from __future__ import annotations

import gzip
import io
import zlib
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

import pyarrow as pa

from hipslake.sources.priming import primed
from hipslake.sources.source_file import SeekPoint

_inflating: Any = zlib
_gzip_file: Any = gzip.GzipFile
with suppress(ModuleNotFoundError):  # three times as fast, with the same interface
    from isal import igzip, isal_zlib

    _inflating, _gzip_file = isal_zlib, igzip.IGzipFile

BUFFER_BYTES = 1 << 20
_TRAILER_BYTES = 8
_MEMBER = b"\x1f\x8b"
INFLATE_ERRORS: tuple[type[Exception], ...] = (
    EOFError,
    gzip.BadGzipFile,
    zlib.error,
    _inflating.error,
)
"""What a damaged stream raises."""

Opened = Callable[[], BinaryIO]
"""Opens a stream, once more for every step back."""


def gunzipped(raw: BinaryIO) -> Any:
    """A gzip file as the stream of its content."""
    return _gzip_file(fileobj=raw)


class ZstandardError(ValueError):
    """A stream is no Zstandard, or ends too early."""


class Unpacking(io.RawIOBase):
    """The content of a compressed stream, which can seek: forwards by reading, or by a point on the way."""

    def __init__(self, opened: Opened, point: SeekPoint | None = None) -> None:
        self._opened, self._point = opened, point
        self._position = 0

    @abstractmethod
    def _begin(self, point: SeekPoint | None) -> None:
        """Begin at the point, or at the beginning."""

    @abstractmethod
    def _next(self, size: int) -> bytes:
        """So many bytes at most, from the position on; none at the end."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence != io.SEEK_SET:
            raise io.UnsupportedOperation("the end of a stream is not known before it is read")
        point = self._point if self._point is not None and self._point.content <= offset else None
        at = point.content if point is not None else 0
        if offset < self._position or self._position < at:
            self._begin(point)
            self._position = at
        while self._position < offset and self._read(min(offset - self._position, BUFFER_BYTES)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        data = self._next(size)
        self._position += len(data)
        return data


class ZstandardContent(Unpacking):
    """The content of a Zstandard stream, of one frame or several; a point is the beginning of a frame."""

    def __init__(self, opened: Opened, point: SeekPoint | None = None) -> None:
        super().__init__(opened, point)
        self._stream = pa.BufferReader(b"")
        self._begin(None)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _begin(self, point: SeekPoint | None) -> None:
        self._stream.close()
        raw = self._opened()
        raw.seek(point.bits // 8 if point is not None else 0)
        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")

    def _next(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except OSError as error:
            if error.errno is not None:
                raise
            raise ZstandardError(str(error).rstrip(".")) from error
        return data


class GzipContent(Unpacking):
    """The content of a gzip file, of one member or several.

    Where it is begun at a point, the checksum of the member there is not looked at: who found the point did.
    """

    def __init__(self, opened: Opened, point: SeekPoint | None = None) -> None:
        super().__init__(opened, point)
        self._raw: BinaryIO = io.BytesIO()
        self._begin(None)

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _begin(self, point: SeekPoint | None) -> None:
        self._raw.close()
        self._raw = self._opened()
        self._waiting, self._trailer = b"", 0
        if point is None:
            self._inflating = _inflating.decompressobj(16 + zlib.MAX_WBITS)
            return
        window = {"zdict": point.window} if point.window else {}
        self._inflating = _inflating.decompressobj(-zlib.MAX_WBITS, **window)
        self._trailer = _TRAILER_BYTES
        byte, bits = divmod(point.bits, 8)
        self._raw.seek(byte)
        if bits:
            self._waiting = primed(self._raw.read(1)[0], bits)

    def _next(self, size: int) -> bytes:
        while size:
            if self._inflating.eof and not self._next_member():
                return b""
            data = self._waiting or self._raw.read(BUFFER_BYTES)
            if not data:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            content: bytes = self._inflating.decompress(data, size)
            self._waiting = self._inflating.unconsumed_tail
            if content:
                return content
        return b""

    def _next_member(self) -> bool:
        """Go on behind the end of a member; False at the end of the file."""
        rest = self._inflating.unused_data
        while len(rest) < self._trailer and (more := self._raw.read(BUFFER_BYTES)):
            rest += more
        if len(rest) < self._trailer:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        rest = rest[self._trailer :].lstrip(b"\0")
        while len(rest) < len(_MEMBER) and (more := self._raw.read(BUFFER_BYTES)):
            rest = (rest + more).lstrip(b"\0")
        if not rest:
            return False
        if not rest.startswith(_MEMBER):
            raise gzip.BadGzipFile(f"Not a gzipped file ({rest[:2]!r})")
        self._inflating, self._waiting, self._trailer = _inflating.decompressobj(16 + zlib.MAX_WBITS), rest, 0
        return True
