"""ECSV sources, plain or compressed: types, units and descriptions from the header, rows as CSV.

Columns whose values are arrays are written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa

from hipslake.errors import CorruptFileError
from hipslake.sources.compression import explained
from hipslake.sources.conforming import conform
from hipslake.sources.csv.parsing import CsvParser, Mends
from hipslake.sources.csv.text_blocks import TextSource
from hipslake.sources.ecsv.header import EcsvHeader, read_ecsv_header
from hipslake.sources.fixed_arrays import MOST_VALUES, pieces, values_in
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_reader import Columns, DescribedSource
from hipslake.specs.source_spec import EcsvOptions

_NO_ARRAYS = (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException)
_MENDS = Mends(
    counts="mend the line, or set source.options.newlines_in_values: true if values hold line ends",
    values="mend the line, add the text to source.options.null_values if it stands for null, or mend the "
    "datatype in the file's header",
)


def with_arrays(batch: pa.RecordBatch, fields: list[pa.Field], uri: str) -> Iterator[pa.RecordBatch]:
    """Turn the columns whose values are written as JSON into arrays; a few rows at a time if they are large.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        With these columns as texts.
    fields : list of pyarrow.Field
        What they are to be.
    uri : str
        The file, for messages.

    Raises
    ------
    CorruptFileError
        For a text that is no such array, or that would fill the memory.
    """
    columns = [_Cells(batch[field.name], field, uri) for field in fields]
    values = sum((cells.values for cells in columns), np.zeros(batch.num_rows, np.int64))
    for rows in pieces(values):
        piece = batch.slice(rows.start, rows.stop - rows.start)
        for cells in columns:
            at = batch.schema.get_field_index(cells.field.name)
            piece = piece.set_column(at, cells.field, cells.arrays(rows))
        yield piece


class _Cells:
    """The cells of a column."""

    def __init__(self, texts: pa.Array, field: pa.Field, uri: str) -> None:
        self.field, self._uri = field, uri
        self._texts = ["null" if text is None else text for text in texts.to_pylist()]
        self._decoded_cells = self._decoded()
        self.values = values_in(self._decoded_cells, field.type)
        lengths = np.array([len(text) for text in self._texts], np.int64)
        if np.any(self.values > np.maximum(lengths, MOST_VALUES)):
            raise CorruptFileError(
                f"{uri}: column {field.name!r}: so many null in one value of {field.type} would fill the "
                "memory; mend the value, or the subtype"
            )

    def arrays(self, rows: slice) -> pa.Array:
        """Some of the rows as Arrow has them."""
        kind = self.field.type
        try:
            return pa.array(self._decoded_cells[rows], kind)
        except MemoryError:  # which is no fault of the file
            raise
        except _NO_ARRAYS:
            raise self._no_array(
                self._decoded_cells[rows], rows, lambda cell: pa.array([cell], kind)
            ) from None

    def _decoded(self) -> list[Any]:
        try:
            cells: list[Any] = json.loads(f"[{','.join(self._texts)}]")
            if len(cells) == len(self._texts):
                return cells
        except _NO_ARRAYS:
            pass
        raise self._no_array(self._texts, slice(None), json.loads)

    def _no_array(self, cells: list[Any], rows: slice, read: Callable[[Any], object]) -> CorruptFileError:
        bad, reason = next(_unreadable(cells, self._texts[rows], read))
        return CorruptFileError(
            f"{self._uri}: column {self.field.name!r}: {bad!r} is no {self.field.type}: {reason}; mend the "
            "value"
        )


def _unreadable(
    cells: list[Any], texts: list[str], read: Callable[[Any], object]
) -> Iterator[tuple[str, Exception]]:
    for cell, text in zip(cells, texts, strict=True):
        try:
            read(cell)
        except _NO_ARRAYS as error:
            yield text, error


class EcsvSource(TextSource, DescribedSource[Columns]):
    """Reads ECSV files."""

    format: ClassVar[str] = "ecsv"
    _options: EcsvOptions

    @property
    def quote_of_lines(self) -> bytes | None:
        return b'"' if self._options.newlines_in_values else None

    def _header(self, text: BinaryIO, uri: str) -> EcsvHeader | None:
        options = self._options
        return read_ecsv_header(
            text, uri, newlines_in_values=options.newlines_in_values, null_values=options.null_values
        )

    def read_head(self, file: SourceFile) -> Columns:
        with explained(file), self.opened(file) as text:
            header = self._header(text, file.uri)
        return Columns(pa.schema([]) if header is None else header.schema)

    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        file = split.file
        with explained(file), self.opened(file, split.point) as text:
            header = self._header(text, file.uri)
            if header is None:
                return
            parser = CsvParser(
                header.csv, header.options, file.uri, lambda offset: self.lines_before(file, offset), _MENDS
            )
            held = set(header.schema.names)
            present = [name for name in wanted.names if name in held]
            present = present or header.schema.names[:1]  # without any wanted column the rows still count
            types = {name: _type_in_text(header, name) for name in present}
            arrays = [header.schema.field(name) for name in present if name in header.json]
            for block in self.blocks(text, split, header.csv.start):
                table = parser.parse(block, present, types)
                for batch in table.to_batches() if table is not None else ():
                    for piece in with_arrays(batch, arrays, file.uri):
                        yield conform(piece, wanted, file.uri)


def _type_in_text(header: EcsvHeader, name: str) -> pa.DataType:
    kind = header.schema.field(name).type
    if name in header.json:
        return pa.string()
    return pa.float32() if kind == pa.float16() else kind  # Arrow reads no shorter floats from text
