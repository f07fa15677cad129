"""ECSV sources, plain or compressed: types, units and descriptions from the header, rows as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, cast

import pyarrow as pa

from hipslake.sources.compression import explained
from hipslake.sources.conforming import conform
from hipslake.sources.csv.parsing import CsvParser, Mends
from hipslake.sources.described import Columns, DescribedSource
from hipslake.sources.ecsv.arrays import with_arrays
from hipslake.sources.ecsv.header import EcsvHeader, read_ecsv_header
from hipslake.sources.files import check_unchanged
from hipslake.sources.model import SourceFile, Split
from hipslake.sources.reader import BATCH_ROWS, selected
from hipslake.sources.text import TextSource
from hipslake.specs.source import Compression, EcsvOptions, SourceSpec

_MENDS = Mends(
    counts="mend the line, or set source.options.newlines_in_values: true if values hold line ends",
    values="mend the line, or the datatype in the file's header",
)


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
