"""The beginning of a CSV file: the byte order mark, lines to skip, and the names of the columns."""

from __future__ import annotations

import csv
import re
from typing import BinaryIO, NamedTuple

from hipslake.errors import CorruptFileError, SchemaMismatchError
from hipslake.sources.csv.text_blocks import first_row_end
from hipslake.sources.distinct_names import check_distinct
from hipslake.specs.source_spec import CsvOptions

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_READ_BYTES = 1 << 16
_LONGEST = 16 << 20  # a header of ten thousand long names is a tenth of this


class CsvHeader(NamedTuple):
    """What stands before the first row."""

    names: tuple[str, ...]
    start: int  # bytes of text before the first row


def read_header(text: BinaryIO, options: CsvOptions, uri: str) -> CsvHeader | None:
    """Read the names of a file's columns; None when the file is empty.

    Parameters
    ----------
    text
        The uncompressed file, at its beginning.

    Raises
    ------
    ReservedColumnError
        When names are equal, or differ only by case.
    SchemaMismatchError
        When a column has no name, or the header has not as many as `column_names`.
    CorruptFileError
        When the file is not UTF-8 text with LF or CRLF line ends.
    """
    lines = _Lines(text, options, uri)
    for _ in range(options.skip_rows):
        lines.next(quotes=False)
    if not options.header:
        names = options.column_names or ()
        return CsvHeader(names, lines.position) if lines.has_more() else None
    passed_over = _passed_over(options)
    while (line := lines.next_but(passed_over, quotes=options.newlines_in_values)) is not None:
        if _is_row(line, options):
            names = _names(line, options, uri)
            return CsvHeader(names, lines.position)
    return None


def _passed_over(options: CsvOptions) -> re.Pattern[bytes]:
    """Empty lines and comments, any number; but no comment with a quote, which may go on in the next line."""
    if options.comment is None:
        return re.compile(rb"(?:\r*\n)*+")
    quote = re.escape((options.quote or "").encode())
    return re.compile(rb"(?:\r*\n|%s[^\n%s]*+\n)*+" % (re.escape(options.comment.encode()), quote))


def _is_row(line: bytes, options: CsvOptions) -> bool:
    comment = options.comment is not None and line.startswith(options.comment.encode())
    return bool(line.strip(b"\r\n")) and not comment


def _names(line: bytes, options: CsvOptions, uri: str) -> tuple[str, ...]:
    try:
        text = line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise CorruptFileError(f"{uri}: the header is not UTF-8 text; convert the file") from None
    if "\r" in text:
        raise CorruptFileError(f"{uri}: lines end with CR alone; convert them to LF or CRLF")
    if options.quote is None:
        names = tuple(text.split(options.delimiter))
    else:
        try:
            names = tuple(next(csv.reader([text], delimiter=options.delimiter, quotechar=options.quote)))
        except csv.Error as error:
            raise CorruptFileError(f"{uri}: the header cannot be read: {error}; mend it") from None
    if options.column_names is not None:
        if len(options.column_names) != len(names):
            raise SchemaMismatchError(
                f"{uri}: the header has {len(names)} columns, but source.options.column_names has "
                f"{len(options.column_names)}; give one name per column"
            )
        names = options.column_names
    if "" in names:
        raise SchemaMismatchError(f"{uri}: column {names.index('') + 1} has no name; give it one")
    check_distinct(names, uri)
    return names


class _Lines:
    """The first lines of a file, read no further than needed."""

    def __init__(self, text: BinaryIO, options: CsvOptions, uri: str) -> None:
        self._text = text
        self._quote = options.quote.encode() if options.quote else b""
        self._uri = uri
        self._buffer = text.read(_READ_BYTES)
        if self._buffer.startswith(_UTF16):
            raise CorruptFileError(f"{uri} is UTF-16 text; convert it to UTF-8")
        self.position = len(_BOM) if self._buffer.startswith(_BOM) else 0

    def has_more(self) -> bool:
        return self.position < len(self._buffer) or self._read()

    def next(self, *, quotes: bool) -> bytes | None:
        """Return the next line with its end; `quotes`: a line end between quotes does not count."""
        if not self.has_more():
            return None
        while not (end := self._end(quotes=quotes)):
            if not self._read():
                end = len(self._buffer)
                break
        line = self._buffer[self.position : end]
        self.position = end
        return line

    def next_but(self, passed_over: re.Pattern[bytes], *, quotes: bool) -> bytes | None:
        """The same, after what is passed over at once: a file may begin with millions of empty lines."""
        found = passed_over.match(self._buffer, self.position)
        self.position = found.end() if found else self.position
        return self.next(quotes=quotes)

    def _end(self, *, quotes: bool) -> int:
        """Return the byte after the next line end in the buffer, 0 if there is none."""
        end = self._buffer.find(b"\n", self.position) + 1
        if end == 0 or not quotes or self._quote not in self._buffer[self.position : end]:
            return end
        return first_row_end(self._buffer, self.position, self._quote)

    def _read(self) -> bool:
        if len(self._buffer) > _LONGEST:
            raise CorruptFileError(f"{self._uri}: no line ends in {_LONGEST >> 20} MiB; is this a CSV file?")
        more = self._text.read(max(_READ_BYTES, len(self._buffer)))  # doubled, so that little is copied
        self._buffer += more
        return bool(more)
