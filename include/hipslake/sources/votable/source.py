"""VOTable sources, plain or compressed: read as a stream, a file by one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

from hipslake.errors import CorruptFileError
from hipslake.sources.compression import decompressed, explained
from hipslake.sources.conforming import conform
from hipslake.sources.fixed_arrays import rows_at_once
from hipslake.sources.source_file import LONGEST_ROW, SourceFile, Split
from hipslake.sources.source_reader import SPLIT_BYTES, Columns, DescribedSource
from hipslake.sources.votable.binary import cut_rows, decode_binary
from hipslake.sources.votable.fields import VotableField
from hipslake.sources.votable.tabledata import decode_text
from hipslake.sources.votable.xml import VotableParser
from hipslake.specs.source_spec import VotableOptions

_HEADER_BYTES = 64 << 10
_CHUNK_BYTES = 4 << 20


class VotableSource(DescribedSource[Columns]):
    """Reads one table of each VOTable file: TABLEDATA, BINARY or BINARY2.

    XML has no places where a reader could begin in the middle, so a file is one split. Memory is bounded by
    the chunks that it is read in, whatever the file's size.
    """

    format: ClassVar[str] = "votable"
    _options: VotableOptions

    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        filled = [file for file in files if file.size]
        return [
            Split(ordinal=ordinal, file=file, unit="bytes", start=0, stop=file.size)
            for ordinal, file in enumerate(filled)
        ]

    def read_head(self, file: SourceFile) -> Columns:
        parser = VotableParser(self._options.table, file)
        with explained(file), decompressed(file, self._options.compression) as text:
            while parser.fields is None and (data := text.read(_HEADER_BYTES)):
                parser.feed(data)
            if parser.fields is None:
                parser.close()
        return Columns(pa.schema([field.field for field in parser.fields or ()]))

    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        uri = split.file.uri
        parser = VotableParser(self._options.table, split.file)
        rows = _Rows(parser, wanted.names, uri, nan_is_null=self._options.nan_is_null)
        with explained(split.file), decompressed(split.file, self._options.compression) as text:
            while data := text.read(_CHUNK_BYTES):
                parser.feed(data)
                for batch in rows.taken():
                    yield conform(batch, wanted, uri)
            parser.close()
            rows.close()


class _Rows:
    """Converts the rows of a parser into record batches."""

    def __init__(self, parser: VotableParser, wanted: Sequence[str], uri: str, *, nan_is_null: bool) -> None:
        self._parser, self._wanted, self._uri = parser, wanted, uri
        self._nan_is_null = nan_is_null
        self._count = 0
        self._rest = b""  # the beginning of a row of which the end was not met yet

    def taken(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that were parsed since the last call."""
        fields = self._parser.fields
        if not fields:
            return
        present = [number for number, field in enumerate(fields) if field.name in self._wanted]
        present = present or [0]  # without any wanted column the rows still count
        as_text = self._parser.serialization == "TABLEDATA"
        for arrays in self._of_text(fields, present) if as_text else [self._of_bytes(fields, present)]:
            batch = pa.RecordBatch.from_pydict(
                {fields[number].name: array for number, array in zip(present, arrays, strict=True)}
            )
            self._count += batch.num_rows
            if batch.num_rows:
                yield batch

    def close(self) -> None:
        """Raise `CorruptFileError` when the bytes end within a row."""
        if self._rest:
            raise CorruptFileError(f"{self._uri} is truncated: it ends in row {self._count + 1}; replace it")

    def _of_text(self, fields: Sequence[VotableField], present: Sequence[int]) -> Iterator[list[pa.Array]]:
        rows = list(self._parser.rows)
        self._parser.rows.clear()
        most = rows_at_once(fields[number].field.type for number in present)
        for at in range(0, len(rows), most):
            columns = list(zip(*rows[at : at + most], strict=True))
            yield [
                decode_text(columns[number], fields[number], self._where, nan_is_null=self._nan_is_null)
                for number in present
            ]

    def _of_bytes(self, fields: Sequence[VotableField], present: Sequence[int]) -> list[pa.Array]:
        data = self._rest + self._parser.take_bytes()
        rows = cut_rows(data, fields, flags=self._parser.serialization == "BINARY2", where=self._where)
        self._rest = data[rows.size :]
        if len(self._rest) > LONGEST_ROW:
            raise CorruptFileError(f"{self._where}: a row has more than {LONGEST_ROW >> 20} MiB; replace it")
        return [
            decode_binary(rows, number, fields[number], self._where, nan_is_null=self._nan_is_null)
            for number in present
        ]

    @property
    def _where(self) -> str:
        return f"{self._uri}: from row {self._count + 1} on"
