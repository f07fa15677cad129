"""Source files as the bytes that were compressed into them, and what is wrong where they cannot be read."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa

from hipslake.errors import CorruptFileError, InputError, StorageError
from hipslake.sources.file_listing import located
from hipslake.sources.source_file import LIST_AGAIN, SourceFile
from hipslake.specs.source_spec import Compression

_ENDINGS: dict[Literal["gzip", "zstd"], tuple[str, ...]] = {
    "gzip": (".gz", ".gzip"),
    "zstd": (".zst", ".zstd"),
}
_BUFFER_BYTES = 1 << 20


def compression_of(file: SourceFile, given: Compression) -> Literal["none", "gzip", "zstd"]:
    """Return how a file is compressed: as the spec says, or with `auto` by the ending of its name."""
    if given != "auto":
        return given
    name = file.uri.lower()
    return next((kind for kind, endings in _ENDINGS.items() if name.endswith(endings)), "none")


@contextmanager
def decompressed(file: SourceFile, given: Compression) -> Iterator[BinaryIO]:
    """Open a file as the stream of its uncompressed bytes.

    A compressed one can seek too, but backwards only by reading once more from the beginning.
    """
    storage, name = located(file)
    match compression_of(file, given):
        case "none":
            with storage.open(name) as raw:
                yield raw
        case "gzip":
            with storage.open(name) as raw, gzip.GzipFile(fileobj=raw) as unzipped:
                yield cast("BinaryIO", unzipped)
        case "zstd":
            unpacking = _Zstandard(lambda: storage.open(name))
            with io.BufferedReader(unpacking, _BUFFER_BYTES) as unpacked:
                yield unpacked


@contextmanager
def explained(file: SourceFile) -> Iterator[None]:
    """Turn what reading a file raises into our errors."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{file.uri} was deleted after the run listed it; {LIST_AGAIN}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorruptFileError(
            f"{file.uri} is truncated or damaged, or no gzip file: {str(error).rstrip('.')}; replace it"
        ) from error
    except _ZstandardError as error:
        raise CorruptFileError(
            f"{file.uri} is truncated or damaged, or no zstd file: {error}; replace it"
        ) from error
    except OSError as error:
        raise StorageError(f"{file.uri} cannot be read: {error}; the run will try again") from error


class _ZstandardError(ValueError):
    """A stream is no Zstandard, or ends too early."""


class _Zstandard(io.RawIOBase):
    """The content of a Zstandard stream; `opened` opens the stream, once more for every step back."""

    def __init__(self, opened: Callable[[], BinaryIO]) -> None:
        self._opened = opened
        self._stream = pa.BufferReader(b"")
        self._begin()

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
        if offset < self._position:
            self._stream.close()
            self._begin()
        while self._position < offset and self._next(min(offset - self._position, _BUFFER_BYTES)):
            pass
        return self._position

    def close(self) -> None:
        self._stream.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def _next(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except OSError as error:
            if error.errno is not None:
                raise
            raise _ZstandardError(str(error).rstrip(".")) from error
        self._position += len(data)
        return data

    def _begin(self) -> None:
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._opened(), mode="r"), "zstd")
        self._position = 0
