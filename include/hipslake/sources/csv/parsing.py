"""Parses blocks of CSV text into Arrow tables; errors name the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from hipslake.errors import CorruptFileError, HipslakeError, SchemaMismatchError
from hipslake.sources.csv.header import CsvHeader
from hipslake.sources.csv.text_blocks import TextBlock, row_ends
from hipslake.specs.source_spec import CsvOptions

Types = Mapping[str, pa.DataType]

_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_VALUE_MESSAGE = re.compile(r"In CSV column #(\d+):.*?CSV conversion error to ([^:]+): (.*)", re.DOTALL)
_COUNT_MESSAGE = re.compile(r"Expected (\d+) columns, got (\d+)")


class Mends(NamedTuple):
    """What messages about a line tell the user to do."""

    counts: str  # about too many or too few values
    values: str  # about a value that is not of its column's type


CSV_MENDS = Mends(
    counts="mend the line, or check source.options.delimiter and quote",
    values="mend the line, add the text to source.options.null_values, or give the column another type in "
    "source.options.types",
)


class QuoteError(ValueError):
    """A quoted value does not end in its row."""


class CsvParser:
    """Parses the blocks of one file.

    Parameters
    ----------
    header
        The file's columns.
    lines_before
        Counts the lines before an offset of the file; called when something is wrong, to say where.
    mends
        What a user can do about a line that cannot be read.
    """

    def __init__(
        self,
        header: CsvHeader,
        options: CsvOptions,
        uri: str,
        lines_before: Callable[[int], int],
        mends: Mends | None = None,
    ) -> None:
        self._mends = mends or CSV_MENDS
        self._header = header
        self._options = options
        self._uri = uri
        self._lines_before = lines_before
        self._quote = options.quote.encode() if options.quote else None
        self._comment = None
        if options.comment is not None:
            self._comment = re.compile(
                rb"^" + re.escape(options.comment.encode()) + rb"[^\n]*\n?", re.MULTILINE
            )

    def parse(
        self, block: TextBlock, columns: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> pa.Table | None:
        """Return these columns of a block's rows; types that are not given are inferred. None: no rows.

        Raises
        ------
        CorruptFileError
            For a row with too many or too few values, or with a quote that is not closed.
        SchemaMismatchError
            For a value that is not of its column's type.
        """
        try:
            return self._parse(block.data, columns, types)
        except (pa.ArrowInvalid, QuoteError) as error:
            raise self._explained(block, columns, types, error) from None

    def probe(self, block: TextBlock, column: str, kind: pa.DataType) -> pa.ChunkedArray | None:
        """Return a column of a block as another type, or None where a value does not fit."""
        try:
            table = self._parse(block.data, [column], {column: kind})
        except pa.ArrowInvalid:
            return None
        return None if table is None else table.column(0)

    def _parse(
        self, data: bytes, columns: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> pa.Table | None:
        if self._comment is not None:
            data = self._comment.sub(b"", data)
        if not data.strip(b"\r\n"):
            return None
        rows = None
        if self._quote is not None and self._quote in data:
            # A quote that is not closed would silently swallow the rows behind it, or the end of the block:
            # so count the rows, and repeat the first one at the end, where only sound text leaves it whole.
            data, rows = self._guarded(data)
        table = pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=self._header.names
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=self._options.delimiter,
                quote_char=self._options.quote or False,
                newlines_in_values=self._options.newlines_in_values,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict(types),
                include_columns=list(columns),
                null_values=self._options.null_values,
                true_values=(*_TRUE, "1") if pa.bool_() in types.values() else _TRUE,
                false_values=(*_FALSE, "0") if pa.bool_() in types.values() else _FALSE,
                strings_can_be_null=True,
                quoted_strings_can_be_null=self._options.quoted_nulls,
            ),
        )
        if rows is None:
            return table
        if table.num_rows != rows + 1:
            raise QuoteError(f"{rows + 1} rows expected, {table.num_rows} read")
        return table.slice(0, rows)

    def _guarded(self, data: bytes) -> tuple[bytes, int]:
        if not data.endswith(b"\n"):
            data += b"\n"
        spans = self._row_spans(data)
        if not len(spans):
            raise QuoteError("no row ends")
        first = slice(*spans[0].tolist())
        return data + data[first], len(spans)

    def _row_spans(self, data: bytes) -> np.ndarray:
        """Return begin and end of every row that is not blank, int64[n, 2]."""
        ends = row_ends(data, self._quote if self._options.newlines_in_values else None)
        begins = np.concatenate(([0], ends[:-1])) if len(ends) else ends
        lengths = ends - begins
        blank = lengths == 1
        two = np.flatnonzero(lengths == 2)
        text = np.frombuffer(data, dtype=np.uint8)
        blank[two[text[begins[two]] == ord("\r")]] = True
        return np.stack((begins, ends), axis=1)[~blank]

    def _explained(
        self, block: TextBlock, columns: Sequence[str], types: Types, error: Exception
    ) -> HipslakeError:
        """Find the first line that cannot be read, by bisection, and say what is wrong with it."""
        ends = row_ends(block.data, None).tolist()
        if not ends or ends[-1] < len(block.data):
            ends.append(len(block.data))
        low, high = 0, len(ends)  # low lines can be read, high cannot
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self._parse(block.data[: ends[middle - 1]], columns, types)
                low = middle
            except (pa.ArrowInvalid, QuoteError) as earlier:
                high, error = middle, earlier
        line = self._lines_before(block.offset) + high
        return _error_of_line(
            f"{self._uri}: line {line}", error, self._header.names, self._options, self._mends
        )


def _error_of_line(
    where: str, error: Exception, names: Sequence[str], options: CsvOptions, mends: Mends
) -> HipslakeError:
    if isinstance(error, QuoteError):
        mend = "double the quotes within values"
        if not options.newlines_in_values:
            mend += ", or set source.options.newlines_in_values: true if values hold line ends"
        return CorruptFileError(f"{where}: a quoted value is not closed in its line; {mend}")
    if count := _COUNT_MESSAGE.search(str(error)):
        return CorruptFileError(
            f"{where}: {count[2]} values, but there are {count[1]} columns; {mends.counts}"
        )
    if value := _VALUE_MESSAGE.search(str(error)):
        name = names[int(value[1])]
        return SchemaMismatchError(
            f"{where}: column {name!r}: {value[3].strip()} for type {value[2]}; {mends.values}"
        )
    return CorruptFileError(f"{where}: {error}")
