"""Text files of one row per line, cut into blocks of whole rows by byte ranges that any task finds alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from hipslake.errors import CorruptFileError
from hipslake.sources.compression import compression_of, decompressed
from hipslake.sources.seek_points import seek_points
from hipslake.sources.source_file import LONGEST_ROW, SeekPoint, SourceFile, Split
from hipslake.sources.source_reader import SPLIT_BYTES, Source
from hipslake.specs.source_spec import CsvOptions, EcsvOptions, SourceSpec

BLOCK_BYTES = 8 << 20
DIVIDED_BYTES = 64 << 20
"""What a compressed file has at least, for several tasks to read it."""
_DIVIDED_FILES = 16  # at most: more than that are as many tasks
_FINER = 2  # than others are the parts of compressed files: each is unpacked too, and few tasks share them
_END = 1 << 62  # of a content whose size only its end tells
_LF = 10
_CHUNK_BYTES = 8 << 20
_PIECE = 1 << 20


class TextBlock(NamedTuple):
    """Whole rows of a file."""

    data: bytes
    offset: int  # of the first byte, in the uncompressed file


def cut_blocks(
    text: BinaryIO, start: int, stop: int | None, *, first: int, uri: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[TextBlock]:
    """Yield the lines that start in [start, stop), whole, also where the last one ends behind `stop`.

    Cut at any offsets, the ranges of a file give each of its lines once, in order.

    Parameters
    ----------
    text
        A file that can seek.
    start, stop
        Bytes; None: to the end.
    first
        Where the first row starts; what stands before it belongs to no range.
    """
    # A line starts where the byte before it is a line end, so begin to look at that byte.
    position = first if start <= first else start - 1
    text.seek(position)
    skipping = start > first
    carry = b""
    while data := text.read(block_bytes):
        buffer = carry + data if carry else data
        if skipping:
            begin = buffer.find(b"\n") + 1
            if begin == 0:
                position += len(buffer)
                continue
            skipping, buffer, position = False, buffer[begin:], position + begin
        if stop is not None and position >= stop:
            return
        end = 0 if stop is None else buffer.find(b"\n", max(stop - 1 - position, 0)) + 1
        if end:
            yield TextBlock(buffer[:end], position)
            return
        end = buffer.rfind(b"\n") + 1
        if end:
            yield TextBlock(buffer[:end], position)
        carry, position = buffer[end:], position + end
        _check_length(carry, position, uri, "line")
    if carry and not skipping:
        yield TextBlock(carry, position)


def cut_quoted_blocks(
    text: BinaryIO, *, first: int, quote: bytes, uri: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[TextBlock]:
    """Yield all rows of a file whose quoted values may hold line ends.

    A row ends at a line end before which the number of quotes is even, since quotes within values are doubled
    (RFC 4180).
    """
    text.seek(first)
    position, carry = first, b""
    while data := text.read(block_bytes):
        buffer = carry + data if carry else data
        ends = row_ends(buffer, quote)
        end = int(ends[-1]) if len(ends) else 0
        if end:
            yield TextBlock(buffer[:end], position)
        carry, position = buffer[end:], position + end
        _check_length(carry, position, uri, "row outside quotes")
    if carry:
        yield TextBlock(carry, position)


def row_ends(data: bytes, quote: bytes | None) -> np.ndarray:
    """Return the offsets behind each line end, int64[n]; with `quote`, without those between quotes."""
    text = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(text == _LF) + 1
    if quote is None or quote not in data:
        return ends
    quotes = np.flatnonzero(text == quote[0])
    return ends[np.searchsorted(quotes, ends) % 2 == 0]


def first_row_end(data: bytes, start: int, quote: bytes, piece: int = _PIECE) -> int:
    """Return the offset behind the first line end from `start` on that is not between quotes; 0 without one.

    It is looked for piece by piece: the offsets of all line ends can be eight times as large as the text.
    """
    before = b""  # a quote, where one is open at the start of the piece
    for low in range(start, len(data), piece):
        text = data[low : low + piece]
        ends = row_ends(before + text, quote)
        if len(ends):
            return low + int(ends[0]) - len(before)
        if text.count(quote) % 2:
            before = b"" if before else quote
    return 0


def _between(points: list[SeekPoint], file: SourceFile, first: int) -> list[Split]:
    """The parts of a file that has points, each with the lines that start in it.

    The line at a point belongs to the part before: it is known to start there once the byte before is read.
    """
    starts = [0, *(point.content + 1 for point in points)] if points else []
    return [
        Split(first + at, file, "content", start, stop, point)
        for at, (start, stop, point) in enumerate(
            zip(starts, [*starts[1:], _END], [None, *points], strict=True) if points else ()
        )
    ]


def _check_length(carry: bytes, position: int, uri: str, what: str) -> None:
    if len(carry) > LONGEST_ROW:
        raise CorruptFileError(
            f"{uri}: from byte {position} on, no end of a {what} in {LONGEST_ROW >> 20} MiB"
        )


class TextSource(Source):
    """Files of text.

    A plain file is read by several tasks: a split has the lines that start in its bytes. So is a large
    compressed one that has points to begin at. A smaller one, one among very many, and one whose values hold
    line ends, is read by one task, as a stream.
    """

    _options: CsvOptions | EcsvOptions

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec)
        self._points: dict[tuple[str, str, int], list[SeekPoint]] = {}  # of the files that were looked at

    def __getstate__(self) -> dict[str, Any]:
        """What goes to tasks: splits hold the points that they need."""
        return {**self.__dict__, "_points": {}}

    @property
    @abstractmethod
    def quote_of_lines(self) -> bytes | None:
        """The quote between which line ends are part of a value; None: every line end ends a row."""

    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        found: list[Split] = []
        total = sum(file.size for file in files)
        for file in files:
            if file.size >= max(DIVIDED_BYTES, total // _DIVIDED_FILES):
                points = self._points_in(file, max(target_bytes // _FINER, 1))
                found += _between(points, file, len(found))
                if points:
                    continue
            whole = self._is_compressed(file) or self.quote_of_lines is not None
            step = max(file.size if whole else target_bytes, 1)
            for start in range(0, file.size, step):
                stop = min(start + step, file.size)
                found.append(Split(ordinal=len(found), file=file, unit="bytes", start=start, stop=stop))
        return found

    def _points_in(self, file: SourceFile, target_bytes: int) -> list[SeekPoint]:
        kind = compression_of(file, self._options.compression)
        if kind == "none" or self.quote_of_lines is not None:
            return []
        key = (file.uri, file.stamp, target_bytes)
        if key not in self._points:
            self._points[key] = seek_points(file, kind, target_bytes)
        return self._points[key]

    def opened(self, file: SourceFile, point: SeekPoint | None = None) -> AbstractContextManager[BinaryIO]:
        """Open the uncompressed text of a file, of which what follows a point may be read alone."""
        return decompressed(file, self._options.compression, point)

    def blocks(
        self, text: BinaryIO, split: Split, first: int, block_bytes: int = BLOCK_BYTES
    ) -> Iterator[TextBlock]:
        """Cut a split into blocks of whole rows; `first` is the byte where the file's first row starts."""
        uri, quote = split.file.uri, self.quote_of_lines
        if quote is not None:
            return cut_quoted_blocks(text, first=first, quote=quote, uri=uri, block_bytes=block_bytes)
        is_part = split.unit == "content" or not self._is_compressed(split.file)
        stop = split.stop if is_part else None
        return cut_blocks(text, split.start, stop, first=first, uri=uri, block_bytes=block_bytes)

    def lines_before(self, file: SourceFile, offset: int) -> int:
        """Count the lines before a byte of the uncompressed text."""
        lines = 0
        with self.opened(file) as text:
            while offset > 0 and (chunk := text.read(min(_CHUNK_BYTES, offset))):
                lines += chunk.count(b"\n")
                offset -= len(chunk)
        return lines

    def _is_compressed(self, file: SourceFile) -> bool:
        return compression_of(file, self._options.compression) != "none"
