"""Text files of one row per line: split by byte ranges, which any task can read alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO

from hipslake.sources.compression import compression_of, decompressed
from hipslake.sources.csv.text_blocks import TextBlock, cut_blocks, cut_quoted_blocks
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_reader import SPLIT_BYTES, Source
from hipslake.specs.source_spec import Compression

_CHUNK_BYTES = 8 << 20


class TextSource(Source):
    """Files of text.

    A plain file is read by several tasks: a split has the lines that start in its bytes. A compressed file,
    and one whose values hold line ends, is read by one task, as a stream.
    """

    @property
    @abstractmethod
    def compression(self) -> Compression:
        """How the files are compressed."""

    @property
    @abstractmethod
    def quote_of_lines(self) -> bytes | None:
        """The quote between which line ends are part of a value; None: every line end ends a row."""

    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        found: list[Split] = []
        for file in files:
            whole = self._is_compressed(file) or self.quote_of_lines is not None
            step = max(file.size if whole else target_bytes, 1)
            for start in range(0, file.size, step):
                stop = min(start + step, file.size)
                found.append(Split(ordinal=len(found), file=file, unit="bytes", start=start, stop=stop))
        return found

    def opened(self, file: SourceFile) -> AbstractContextManager[BinaryIO]:
        """Open the uncompressed text of a file."""
        return decompressed(file, self.compression)

    def blocks(self, text: BinaryIO, split: Split, first: int) -> Iterator[TextBlock]:
        """Cut a split into blocks of whole rows; `first` is the byte where the file's first row starts."""
        uri = split.file.uri
        if self.quote_of_lines is not None:
            return cut_quoted_blocks(text, first=first, quote=self.quote_of_lines, uri=uri)
        stop = None if self._is_compressed(split.file) else split.stop
        return cut_blocks(text, split.start, stop, first=first, uri=uri)

    def lines_before(self, file: SourceFile, offset: int) -> int:
        """Count the lines before a byte of the uncompressed text."""
        lines = 0
        with self.opened(file) as text:
            while offset > 0 and (chunk := text.read(min(_CHUNK_BYTES, offset))):
                lines += chunk.count(b"\n")
                offset -= len(chunk)
        return lines

    def _is_compressed(self, file: SourceFile) -> bool:
        return compression_of(file, self.compression) != "none"
