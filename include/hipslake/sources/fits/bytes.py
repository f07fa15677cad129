"""The bytes of a FITS file by their place: any range of a plain file; of a compressed one only forwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Protocol, cast

from hipslake.sources.compression import compression_of, decompressed
from hipslake.sources.file_listing import located
from hipslake.sources.source_file import UNPACKED_RATIO, SourceFile, check_expansion
from hipslake.specs.source_spec import Compression

_AHEAD_BYTES = 64 << 10  # read with the first block of a header, since more of it mostly follow
_SKIP_BYTES = 8 << 20


class FitsBytes(Protocol):
    """A file whose bytes can be asked for."""

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop); fewer where the file ends before."""

    def any_range(self, stop: int) -> FitsBytes:
        """Return the same bytes up to `stop`, to be asked for in any order.

        Raises
        ------
        InputError
            When they are too many to be unpacked.
        """


@contextmanager
def opened(file: SourceFile, given: Compression) -> Iterator[FitsBytes]:
    """Open a file: a plain one to read ranges of it, a compressed one as a stream."""
    if compression_of(file, given) == "none":
        yield _PlainBytes(file)
        return
    with ExitStack() as stack:
        yield _StreamBytes(stack.enter_context(decompressed(file, given)), stack, file)


class _PlainBytes:
    def __init__(self, file: SourceFile) -> None:
        self._storage, self._name = located(file)
        self._size = file.size
        self._ahead_of, self._ahead = 0, b""

    def read(self, start: int, stop: int) -> bytes:
        stop = min(stop, self._size)
        if stop - start >= _AHEAD_BYTES:
            return self._storage.read_range(self._name, start, stop)
        if not self._ahead_of <= start <= stop <= self._ahead_of + len(self._ahead):
            self._ahead_of = start
            self._ahead = self._storage.read_range(self._name, start, min(start + _AHEAD_BYTES, self._size))
        return self._ahead[start - self._ahead_of : stop - self._ahead_of]

    def any_range(self, stop: int) -> FitsBytes:
        return self


class _StreamBytes:
    def __init__(self, stream: BinaryIO, stack: ExitStack, file: SourceFile) -> None:
        self._stream, self._stack, self._file = stream, stack, file
        self._position = 0

    def read(self, start: int, stop: int) -> bytes:
        while self._position < start and self._next(min(start - self._position, _SKIP_BYTES)):
            pass
        return self._next(stop - start)

    def any_range(self, stop: int) -> FitsBytes:
        """Unpack what follows into a temporary file: a heap lies behind the rows that point into it."""
        spool = tempfile.TemporaryFile(prefix="hipslake-")  # noqa: SIM115
        self._stack.callback(spool.close)
        left = stop - self._position
        while left > 0 and (data := self._stream.read(min(left, _SKIP_BYTES))):
            left -= len(data)
            check_expansion(spool.tell() + len(data), self._file, UNPACKED_RATIO, "rows and a heap")
            spool.write(data)
        return _SpooledBytes(cast("BinaryIO", spool), self._position)

    def _next(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._position += len(data)
        return data


class _SpooledBytes:
    def __init__(self, spool: BinaryIO, begin: int) -> None:
        self._spool, self._begin = spool, begin

    def read(self, start: int, stop: int) -> bytes:
        self._spool.seek(start - self._begin)
        return self._spool.read(stop - start)

    def any_range(self, stop: int) -> FitsBytes:
        return self
