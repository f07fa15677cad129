"""ECSV sources, plain or compressed: types, units and descriptions from the header, rows as CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import ClassVar, cast

import pyarrow as pa

from hipslake.errors import CorruptFileError
from hipslake.sources.compression import explained
from hipslake.sources.conforming import conform
from hipslake.sources.csv.parsing import CsvParser, Mends
from hipslake.sources.described import Columns, DescribedSource
from hipslake.sources.ecsv.header import EcsvHeader, read_ecsv_header
from hipslake.sources.files import check_unchanged
from hipslake.sources.fixed_arrays import MOST_VALUES, rows_at_once, values_of
from hipslake.sources.model import SourceFile, Split
from hipslake.sources.reader import BATCH_ROWS, selected
from hipslake.sources.text import TextSource
from hipslake.specs.source import Compression, EcsvOptions, SourceSpec

_MENDS = Mends(
    counts="mend the line, or set source.options.newlines_in_values: true if values hold line ends",
    values="mend the line, or the datatype in the file's header",
)


_NO_ARRAYS = (ValueError, TypeError, OverflowError, RecursionError, pa.ArrowException)


class EcsvSource(TextSource, DescribedSource[Columns]):
    """Reads ECSV files."""

    format: ClassVar[str] = "ecsv"

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec)
        self._options = cast("EcsvOptions", spec.options)

    @property
    def compression(self) -> Compression:
        return self._options.compression

    @property
    def quote_of_lines(self) -> bytes | None:
        return b'"' if self._options.newlines_in_values else None

    def read_head(self, file: SourceFile) -> Columns:
        with explained(file), self.opened(file) as text:
            header = read_ecsv_header(text, file.uri, newlines_in_values=self._options.newlines_in_values)
        return Columns(pa.schema([]) if header is None else header.schema)

    def read(
        self,
        split: Split,
        schema: pa.Schema,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        wanted = selected(schema, columns)
        file = split.file
        check_unchanged(file)
        with explained(file), self.opened(file) as text:
            header = read_ecsv_header(text, file.uri, newlines_in_values=self._options.newlines_in_values)
            if header is None:
                return
            parser = CsvParser(
                header.csv, header.options, file.uri, lambda offset: self.lines_before(file, offset), _MENDS
            )
            present = [name for name in wanted.names if name in header.schema.names]
            present = present or header.schema.names[:1]  # without any wanted column the rows still count
            types = {name: _type_in_text(header, name) for name in present}
            most = rows_at_once(header.schema.field(name).type for name in present)
            for block in self.blocks(text, split, header.csv.start):
                table = parser.parse(block, present, types)
                for batch in table.to_batches(most) if table is not None else ():
                    yield conform(_with_arrays(batch, header, file.uri), wanted, file.uri)


def _type_in_text(header: EcsvHeader, name: str) -> pa.DataType:
    kind = header.schema.field(name).type
    if name in header.json:
        return pa.string()
    return pa.float32() if kind == pa.float16() else kind  # Arrow reads no shorter floats from text


def _with_arrays(batch: pa.RecordBatch, header: EcsvHeader, uri: str) -> pa.RecordBatch:
    """Turn the columns whose values are written as JSON into arrays."""
    for at, name in enumerate(batch.schema.names):
        if name in header.json:
            field = header.schema.field(name)
            batch = batch.set_column(at, field, _arrays(batch.column(at), field, uri))
    return batch


def _arrays(texts: pa.Array, field: pa.Field, uri: str) -> pa.Array:
    cells = ["null" if text is None else text for text in texts.to_pylist()]
    for cell in cells:
        if values_of(field.type) * cell.count("null") > max(MOST_VALUES, values_of(field.type)):
            raise CorruptFileError(
                f"{uri}: column {field.name!r}: so many null in one value of {field.type} would fill the "
                "memory; mend the value, or the subtype"
            )
    try:
        arrays = pa.array(json.loads(f"[{','.join(cells)}]"), field.type)
        if len(arrays) == len(cells):
            return arrays
    except _NO_ARRAYS:
        pass
    bad, reason = next(_bad(cells, field.type))
    raise CorruptFileError(
        f"{uri}: column {field.name!r}: {bad!r} is no {field.type}: {reason}; mend the value"
    )


def _bad(cells: list[str], kind: pa.DataType) -> Iterator[tuple[str, Exception]]:
    for cell in cells:
        try:
            pa.array([json.loads(cell)], kind)
        except _NO_ARRAYS as error:
            yield cell, error
